//! A program as data.

use super::all::*;

/// A program: leaves and layers, steps that compute values from them, losses, and perhaps an optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The seed from which the program was made.
    pub seed: u64,
    pub leaves: Vec<Leaf>,
    pub layers: Vec<LayerSpec>,
    /// The steps. Values are numbered: first the leaves, then the results of the steps.
    pub steps: Vec<Step>,
    /// The values from which a backward pass starts, in this order.
    pub roots: Vec<usize>,
    /// The passes over the steps. An optimizer steps after each.
    pub passes: usize,
    pub optimizer: Optimizer,
    pub checkpointing: bool,
}

/// A tensor that a program starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub shape: Shape,
    /// The values are noise between -1 and 1 times `scale`, plus `offset`.
    pub scale: f64,
    pub offset: f64,
    pub kind: LeafKind,
}

/// The values of a leaf.
pub fn values<B: Backend>(leaf: &Leaf, seed: u64, to: &Setting<B>) -> FloatTensor<B> {
    let noise = to.noise(leaf.shape.clone(), seed);
    let scaled = B::float_mul_scalar(noise, leaf.scale.into());
    B::float_add_scalar(scaled, leaf.offset.into())
}

/// The seed of the leaf of this number.
pub fn leaf_seed(program: u64, number: usize) -> u64 {
    Rng::new(program ^ (number as u64 + 1) << 32).bits()
}

/// What a leaf is for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// A tensor that requires no gradient.
    Input,
    /// A tensor that requires a gradient and that no optimizer steps.
    Tracked,
    /// A parameter; of rank 1 to 4.
    Parameter,
    /// A parameter that requires no gradient; of rank 1 to 4.
    Frozen,
}

/// One op.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Op,
    /// The numbers of the operands.
    pub operands: Vec<usize>,
    pub read: Read,
    /// Whether the step runs inside `burn_amp::full_precision`.
    pub full_precision: bool,
}

/// When the program reads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Never,
    /// Before the next step.
    AtOnce,
    /// After the last step, before the backward passes.
    BeforeBackward,
    /// After the backward passes.
    AfterBackward,
    /// After the backward passes, with others in one transaction.
    Together,
}

/// What a step computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Elementwise(Elementwise),
    Movement(Movement),
    Reduction(Reduction),
    /// The forward pass of the layer of this number.
    Layer(usize),
}

/// How parameters are stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimizer {
    None,
    Sgd,
    Momentum,
    Adam,
    /// Adam, which is Burn's where the policy allows it.
    BurnsAdam,
    AdamW,
}

impl Optimizer {
    /// Whether the length of a step does not depend on that of the gradient.
    pub fn is_adaptive(self) -> bool {
        match self {
            Self::Adam | Self::BurnsAdam | Self::AdamW => true,
            Self::None | Self::Sgd | Self::Momentum => false,
        }
    }
}

impl Op {
    /// The shape of the result; `None` if the operands do not fit.
    pub fn shape(&self, layers: &[LayerSpec], operands: &[Shape]) -> Option<Shape> {
        match self {
            Self::Elementwise(op) => op.shape(operands),
            Self::Movement(op) => op.shape(operands),
            Self::Reduction(op) => op.shape(operands),
            Self::Layer(number) => layers.get(*number)?.shape(operands.first()?),
        }
    }

    /// Computes the result.
    pub fn call<B: AutodiffBackend>(
        &self,
        layers: &[Layer<B>],
        operands: Vec<FloatTensor<B>>,
        to: &Setting<B>,
    ) -> FloatTensor<B> {
        match self {
            Self::Elementwise(op) => op.call::<B>(operands, to),
            Self::Movement(op) => op.call::<B>(operands, to),
            Self::Reduction(op) => op.call::<B>(operands, to),
            Self::Layer(number) => {
                let x = operands.into_iter().next().expect("a layer has an operand");
                layers[*number].forward(x)
            }
        }
    }

    /// The op as it is printed; `None` for a layer.
    pub fn text(&self) -> Option<Text> {
        match self {
            Self::Elementwise(op) => Some(op.text()),
            Self::Movement(op) => Some(op.text()),
            Self::Reduction(op) => Some(op.text()),
            Self::Layer(_) => None,
        }
    }

    /// The name of the op.
    pub fn name(&self, layers: &[LayerSpec]) -> String {
        match self {
            Self::Elementwise(op) => op.name().to_owned(),
            Self::Movement(op) => op.name().to_owned(),
            Self::Reduction(op) => op.name().to_owned(),
            Self::Layer(number) => {
                let text = format!("{:?}", layers[*number]);
                text.split(' ').next().unwrap_or_default().to_owned()
            }
        }
    }
}

impl Program {
    /// The shapes of all values; `None` if the operands of a step do not fit.
    pub fn shapes(&self) -> Option<Vec<Shape>> {
        let mut shapes: Vec<Shape> = self.leaves.iter().map(|leaf| leaf.shape.clone()).collect();
        for step in &self.steps {
            let operands: Option<Vec<Shape>> = step
                .operands
                .iter()
                .map(|number| shapes.get(*number).cloned())
                .collect();
            shapes.push(step.op.shape(&self.layers, &operands?)?);
        }
        self.roots
            .iter()
            .all(|root| *root < shapes.len())
            .then_some(shapes)
    }

    /// The dtypes of all values on the plain backend; `None` if a step mixes some.
    pub fn dtypes(&self) -> Option<Vec<FloatDType>> {
        let mut dtypes = vec![FloatDType::F32; self.leaves.len()];
        for step in &self.steps {
            let dtype = dtypes[*step.operands.first()?];
            let is_layer = matches!(step.op, Op::Layer(_));
            let is_mixed = step.operands.iter().any(|number| dtypes[*number] != dtype);
            if is_mixed || is_layer && dtype != FloatDType::F32 {
                return None;
            }
            dtypes.push(match step.op {
                Op::Movement(Movement::Cast { dtype }) => dtype,
                _ => dtype,
            });
        }
        Some(dtypes)
    }

    /// Which values are in the graph of a backward pass, and which root's graph it is: a graph is used up by one pass,
    /// so two roots share leaves only.
    pub fn is_well_formed(&self) -> bool {
        let (Some(shapes), Some(_)) = (self.shapes(), self.dtypes()) else {
            return false;
        };
        let tracked = self.tracked();
        let mut used = vec![false; shapes.len()];
        self.roots.iter().all(|root| {
            let inside = self.behind(*root);
            let is_free = inside
                .iter()
                .all(|number| !used[*number] || self.is_leaf(*number));
            inside.iter().for_each(|number| used[*number] = true);
            is_free && tracked[*root] && !shapes[*root].contains(&0)
        })
    }

    /// Whether each value is in a graph.
    pub fn tracked(&self) -> Vec<bool> {
        let kinds = self.leaves.iter().map(|leaf| leaf.kind);
        let mut tracked: Vec<bool> = kinds
            .map(|kind| matches!(kind, LeafKind::Tracked | LeafKind::Parameter))
            .collect();
        for step in &self.steps {
            let is_tracked = match &step.op {
                Op::Movement(Movement::NewLeaf {}) | Op::Layer(_) => true,
                Op::Movement(op) if cuts(op) => false,
                op if is_constant(op) => false,
                _ => step.operands.iter().any(|number| tracked[*number]),
            };
            tracked.push(is_tracked);
        }
        tracked
    }

    /// The tracked values from which a value is computed inside its graph, itself included.
    fn behind(&self, root: usize) -> Vec<usize> {
        let tracked = self.tracked();
        let mut inside = vec![false; tracked.len()];
        inside[root] = true;
        for number in (self.leaves.len()..=root).rev() {
            let step = &self.steps[number - self.leaves.len()];
            if inside[number] && tracked[number] && !self.is_leaf(number) {
                step.operands
                    .iter()
                    .for_each(|operand| inside[*operand] |= tracked[*operand]);
            }
        }
        (0..tracked.len())
            .filter(|number| inside[*number])
            .collect()
    }

    /// A value as results are named: its number, and the op that computes it.
    pub fn value_name(&self, number: usize) -> String {
        match number.checked_sub(self.leaves.len()) {
            None => format!("v{number}"),
            Some(step) => format!("v{number} ({})", self.steps[step].op.name(&self.layers)),
        }
    }

    /// Whether a value is a leaf of the graph.
    pub fn is_leaf(&self, number: usize) -> bool {
        match number.checked_sub(self.leaves.len()) {
            None => true,
            Some(step) => matches!(self.steps[step].op, Op::Movement(Movement::NewLeaf {})),
        }
    }
}

/// Whether the result is outside the graph of the operand.
fn cuts(op: &Movement) -> bool {
    matches!(
        op,
        Movement::Detach {}
            | Movement::Cut {}
            | Movement::ThroughInner {}
            | Movement::ThroughInnerOp { .. }
    )
}

/// Whether the result depends on its operand through ints or bools only.
fn is_constant(op: &Op) -> bool {
    matches!(
        op,
        Op::Reduction(
            Reduction::ArgmaxAsNumbers { .. }
                | Reduction::CountAbove { .. }
                | Reduction::TopK { .. }
        )
    )
}
