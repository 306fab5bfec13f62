//! Makes programs from seeds.
//!
//! A program grows step by step. A step is proposed at random, and kept if its operands fit and its exact values stay
//! in a range in which F16 makes sense: they are computed in F64 as the program grows.

use super::all::*;
use super::{by_hand::ByHand, motif, propose};

/// The backend on which exact values are computed.
pub type Exact = Autodiff<ByHand>;

/// The largest value that a program may compute: F16 has room for such a number times a few.
const LARGEST: f64 = 1e3;

/// A program that is being made, with its values so far.
pub struct Growing {
    pub program: Program,
    pub shapes: Vec<Shape>,
    pub dtypes: Vec<FloatDType>,
    /// Which root's graph each value will be in; leaves are in all.
    pub part: Vec<Option<usize>>,
    pub current: usize,
    pub rng: Rng,
    pub limits: Limits,
    values: Vec<FloatTensor<Exact>>,
    model: Model<Exact>,
    to: Setting<Exact>,
}

/// Makes the program of a seed.
pub fn program(seed: u64, limits: Limits) -> Program {
    let mut growing = Growing::new(seed, limits);
    let parts = if growing.rng.percent(15) { 2 } else { 1 };
    for part in 0..parts {
        growing.current = part;
        let steps = 2 + growing.rng.below(limits.steps / parts - 1);
        let end = growing.program.steps.len() + steps;
        let mut attempts = 0;
        while growing.program.steps.len() < end && attempts < 20 * steps {
            attempts += 1;
            if growing.rng.percent(35) {
                motif::grow(&mut growing);
            } else if let Some((op, operands)) = propose::step(&mut growing) {
                growing.push(op, operands);
            }
        }
        growing.close(part);
    }
    growing.finish()
}

impl Growing {
    fn new(seed: u64, limits: Limits) -> Self {
        let mut rng = Rng::new(seed);
        let to = Setting {
            device: Default::default(),
        };
        let optimizer = match rng.below(10) {
            0 => Optimizer::Sgd,
            1 => Optimizer::Momentum,
            2 => Optimizer::Adam,
            3 => Optimizer::BurnsAdam,
            4 => Optimizer::AdamW,
            _ => Optimizer::None,
        };
        let program = Program {
            seed,
            leaves: vec![],
            layers: vec![],
            steps: vec![],
            roots: vec![],
            passes: if optimizer == Optimizer::None {
                1
            } else {
                1 + rng.below(3)
            },
            optimizer,
            checkpointing: rng.percent(30),
        };
        let mut growing = Self {
            model: Model::new(&program, &to),
            program,
            shapes: vec![],
            dtypes: vec![],
            part: vec![],
            current: 0,
            rng,
            limits,
            values: vec![],
            to,
        };
        let leaves = 2 + growing.rng.below(4);
        let sizes = propose::sizes(&mut growing.rng, limits);
        for number in 0..leaves {
            let shape = propose::leaf_shape(&mut growing.rng, &sizes, limits);
            let kind = match growing.rng.below(10) {
                0..4 if number > 0 => LeafKind::Input,
                4..6 => LeafKind::Tracked,
                6 if number > 1 && shape.len() <= 4 => LeafKind::Frozen,
                _ if shape.len() <= 4 => LeafKind::Parameter,
                _ => LeafKind::Tracked,
            };
            growing.leaf(shape, kind);
        }
        growing
    }

    /// Adds a leaf; only before the first step.
    fn leaf(&mut self, shape: Shape, kind: LeafKind) {
        let scale = self.rng.pick(&[1.0, 1.0, 0.25, 2.0]);
        let offset = self.rng.pick(&[0.0, 0.0, 0.0, 1.5]);
        let leaf = Leaf {
            shape: shape.clone(),
            scale,
            offset,
            kind,
        };
        let number = self.program.leaves.len();
        let value = values(&leaf, leaf_seed(self.program.seed, number), &self.to);
        let is_tracked = matches!(kind, LeafKind::Tracked | LeafKind::Parameter);
        self.values
            .push(Exact::float_set_require_grad(value, is_tracked));
        self.program.leaves.push(leaf);
        self.shapes.push(shape);
        self.dtypes.push(FloatDType::F32);
        self.part.push(None);
    }

    /// Adds a layer; returns its number.
    pub fn layer(&mut self, layer: LayerSpec) -> usize {
        let number = self.program.layers.len();
        let seed = leaf_seed(self.program.seed, 1000 + number);
        self.model.layers.push(layer.init(&self.to, seed));
        self.program.layers.push(layer);
        number
    }

    /// A value that the next step may use: a recent one with some probability.
    pub fn operand(&mut self) -> usize {
        let all: Vec<usize> = (0..self.shapes.len())
            .filter(|n| self.may_use(*n))
            .collect();
        let recent = 3.min(all.len());
        if self.rng.percent(60) {
            all[all.len() - 1 - self.rng.below(recent)]
        } else {
            self.rng.pick(&all)
        }
    }

    /// A value that fits a condition, the latest ones more often.
    pub fn operand_where(&mut self, fits: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.shapes.len())
            .filter(|n| self.may_use(*n) && fits(self, *n))
            .collect();
        (!all.is_empty()).then(|| {
            let recent = if self.rng.percent(50) {
                2.min(all.len())
            } else {
                all.len()
            };
            all[all.len() - 1 - self.rng.below(recent)]
        })
    }

    fn may_use(&self, number: usize) -> bool {
        self.part[number].is_none_or(|part| part == self.current)
    }

    /// Adds a step; returns the number of its result. `None` if the operands do not fit or the values leave the range.
    pub fn push(&mut self, op: Op, operands: Vec<usize>) -> Option<usize> {
        let shapes: Vec<Shape> = operands.iter().map(|n| self.shapes[*n].clone()).collect();
        let shape = op.shape(&self.program.layers, &shapes)?;
        let elements = shape.iter().product::<usize>();
        if elements > self.limits.elements || shape.len() > 6 {
            return None;
        }
        let mut program = self.program.clone();
        let full_precision = self.rng.percent(4);
        let read = match self.rng.below(10) {
            0 | 1 => Read::AtOnce,
            2 => Read::BeforeBackward,
            3 => Read::AfterBackward,
            4 => Read::Together,
            _ => Read::Never,
        };
        program.steps.push(Step {
            op: op.clone(),
            operands: operands.clone(),
            read,
            full_precision,
        });
        let dtype = *program.dtypes()?.last()?;
        let inputs = operands.iter().map(|n| self.values[*n].clone()).collect();
        // Burn itself refuses some operands.
        let value = caught(|| op.call(&self.model.layers, inputs, &self.to)).ok()?;
        let largest = largest::<Exact>(value.clone());
        if elements > 0 && !(1e-3..LARGEST).contains(&largest) {
            return None;
        }
        self.program = program;
        self.values.push(value);
        self.shapes.push(shape);
        self.dtypes.push(dtype);
        self.part.push(Some(self.current));
        Some(self.values.len() - 1)
    }

    /// Ends a part: makes its root of the results that no step uses.
    fn close(&mut self, part: usize) {
        let tracked = self.program.tracked();
        let is_used = |n: usize| {
            self.program
                .steps
                .iter()
                .any(|step| step.operands.contains(&n))
        };
        let ends: Vec<usize> = (self.program.leaves.len()..self.shapes.len())
            .filter(|n| self.part[*n] == Some(part) && tracked[*n] && !is_used(*n))
            .filter(|n| !self.shapes[*n].contains(&0))
            .collect();
        let Some(last) = ends.last().copied() else {
            return;
        };
        if ends.len() == 1 && self.rng.percent(30) || self.rng.percent(5) {
            self.program.roots.push(last);
            return;
        }
        let mut sum: Option<usize> = None;
        for end in ends {
            let seed = self.rng.bits();
            let end = match self.dtypes[end] {
                FloatDType::F32 => Some(end),
                _ => self.push(
                    Op::Movement(Movement::Cast {
                        dtype: FloatDType::F32,
                    }),
                    vec![end],
                ),
            };
            let Some(end) = end else { continue };
            let loss = Op::Reduction(Reduction::WeightedSum { seed });
            let Some(loss) = self.push(loss, vec![end]) else {
                continue;
            };
            sum = match sum {
                None => Some(loss),
                Some(sum) => self
                    .push(Op::Elementwise(Elementwise::Add {}), vec![sum, loss])
                    .or(Some(sum)),
            };
        }
        self.program.roots.extend(sum);
    }

    fn finish(mut self) -> Program {
        if self.program.roots.len() == 2 && self.rng.percent(50) {
            self.program.roots.reverse();
        }
        self.program
    }
}

/// The largest absolute value; NaN if one is not finite.
pub fn largest<B: AutodiffBackend>(x: FloatTensor<B>) -> f64 {
    let data = data::<B>(x);
    let larger = |largest: f64, x: f64| {
        if x.is_finite() {
            largest.max(x.abs())
        } else {
            f64::NAN
        }
    };
    data.iter::<f64>().fold(
        0.0,
        |all, x| if all.is_nan() { all } else { larger(all, x) },
    )
}
