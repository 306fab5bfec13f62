//! Runs a program on a backend.

use burn_backend::ops::{TransactionOps, TransactionPrimitive};

use super::all::*;
use super::{
    by_hand::{Scope, within},
    subject::in_full_precision,
};

/// The passes whose gradients may overflow in a row before a run gives up.
const MOST_OVERFLOWS: usize = 40;

/// Runs a program.
///
/// # Panics
///
/// Panics as the ops do.
pub fn run<S: Subject>(program: &Program, circumstances: &Circumstances) -> Outcome {
    let _guard = S::guard();
    let to = Setting {
        device: Default::default(),
    };
    let mut model = Model::<S::B>::new(program, &to);
    let mut optimizer = S::optimizer(program.optimizer);
    let mut outcome = Outcome::default();
    for pass in 0..program.passes {
        let mut overflows = 0;
        let passed = loop {
            let run = Pass::<S> {
                program,
                circumstances,
                number: pass,
                to: to.clone(),
                outcome: Outcome::default(),
            };
            let (next, passed) = run.run(model, &mut optimizer);
            model = next;
            if let Some(passed) = passed {
                break passed;
            }
            // In Burn 0.21.0, the second loss of two that share a parameter has no graph if both had passes before.
            model = model.renewed();
            overflows += 1;
            if overflows == MOST_OVERFLOWS {
                outcome.overflowed = true;
                return outcome;
            }
        };
        outcome.results.extend(passed.results);
        if pass == 0 {
            outcome.first_pass = outcome.results.len();
        }
        outcome.scales.extend(passed.scales);
    }
    outcome
}

/// One pass over the steps, with its backward passes and the steps of the optimizer.
struct Pass<'a, S: Subject> {
    program: &'a Program,
    circumstances: &'a Circumstances,
    number: usize,
    to: Setting<S::B>,
    outcome: Outcome,
}

/// Leaves of the graph, with their numbers.
type Leaves<B> = Vec<(usize, FloatTensor<B>)>;

/// The values that are still needed.
type Values<B> = Vec<Option<FloatTensor<B>>>;

impl<S: Subject> Pass<'_, S> {
    /// Runs the pass; the outcome is `None` if gradients overflowed. The parameters are then the old ones.
    fn run(
        mut self,
        mut model: Model<S::B>,
        optimizer: &mut Option<Stepper<S::B>>,
    ) -> (Model<S::B>, Option<Outcome>) {
        let (leaves, mut values) = self.forward(&model);
        let mut passes = Vec::new();
        let checks_late = S::CHECKS_LATE && self.program.roots.len() == 1;
        for (place, root) in self.program.roots.iter().enumerate() {
            let root = values[*root].clone().expect("roots are kept");
            let number = self.number * self.program.roots.len() + place;
            let scale = self.circumstances.scales.get(number).copied();
            let scale = scale.unwrap_or(1.0);
            let grads = S::backward(root, scale);
            // Gradients of an overflowed pass that were asked for would make the optimizer skip its next step.
            if !checks_late && !self.note_scale(&grads) {
                return (model, None);
            }
            self.read_gradients(place, &leaves, &model, &grads, scale);
            passes.push((grads, scale));
        }
        self.read_late(&mut values);
        drop(values);
        drop(leaves);

        if let Some(step) = optimizer {
            let old = model.clone();
            for (grads, scale) in &mut passes {
                let grads = S::parameters(grads, &old, *scale);
                model = S::step(step, model, grads);
            }
            for (i, data) in model.parameters(None).into_iter().enumerate() {
                if let Some(data) = data {
                    self.note(format!("parameter {i} after the step"), data);
                }
            }
        }
        if checks_late && !passes.iter().all(|(grads, _)| self.note_scale(grads)) {
            return (model, None);
        }
        (model, Some(self.outcome))
    }

    /// Runs the steps. Returns the leaves of the graph with their numbers, and the values that are needed later.
    fn forward(&mut self, model: &Model<S::B>) -> (Leaves<S::B>, Values<S::B>) {
        let program = self.program;
        let mut leaves = Vec::new();
        let mut all: Values<S::B> = Vec::new();
        for (number, leaf) in program.leaves.iter().enumerate() {
            let value = match leaf.kind {
                LeafKind::Parameter | LeafKind::Frozen => model.value(program, number),
                LeafKind::Input | LeafKind::Tracked => {
                    values(leaf, leaf_seed(program.seed, number), &self.to)
                }
            };
            let is_tracked = leaf.kind == LeafKind::Tracked;
            all.push(Some(if is_tracked {
                let value = S::B::float_set_require_grad(value, true);
                leaves.push((number, value.clone()));
                value
            } else {
                value
            }));
        }
        let last_use = last_uses(program);
        for (place, step) in program.steps.iter().enumerate() {
            let number = program.leaves.len() + place;
            if self.circumstances.disturbed && place == program.steps.len() / 2 {
                disturb::<S::B>(&self.to);
            }
            let operands = step.operands.iter().map(|operand| {
                let value = &mut all[*operand];
                let value = if last_use[*operand] == Some(number) && is_last(step, *operand) {
                    value.take()
                } else {
                    value.clone()
                };
                value.expect("a value is kept until its last use")
            });
            let operands = operands.collect();
            let call = || step.op.call(&model.layers, operands, &self.to);
            let value = if step.full_precision {
                in_full_precision(|| within(Scope::Exact, call))
            } else {
                call()
            };
            if step.read == Read::AtOnce {
                self.note(self.program.value_name(number), data::<S::B>(value.clone()));
            }
            if program.is_leaf(number) {
                leaves.push((number, value.clone()));
            }
            all.push((last_use[number].is_some()).then_some(value));
        }
        for (place, step) in program.steps.iter().enumerate() {
            let number = program.leaves.len() + place;
            if step.read == Read::BeforeBackward {
                let value = all[number].clone().expect("a value that is read is kept");
                self.note(self.program.value_name(number), data::<S::B>(value));
            }
        }
        (leaves, all)
    }

    fn read_gradients(
        &mut self,
        root: usize,
        leaves: &[(usize, FloatTensor<S::B>)],
        model: &Model<S::B>,
        grads: &<S::B as AutodiffBackend>::Gradients,
        scale: f64,
    ) {
        let mut all = Vec::new();
        for (number, leaf) in leaves {
            let gradient =
                S::B::grad(leaf, grads).map(data::<<S::B as AutodiffBackend>::InnerBackend>);
            all.push((
                format!(
                    "gradient of {} by root {root}",
                    self.program.value_name(*number)
                ),
                gradient,
            ));
        }
        for (i, gradient) in model.parameters(Some(grads)).into_iter().enumerate() {
            all.push((
                format!("gradient of parameter {i} by root {root}"),
                gradient,
            ));
        }
        for (name, gradient) in all {
            // Whether a gradient is there is compared as well.
            let gradient = match gradient {
                Some(gradient) if scale == 1.0 => gradient,
                Some(gradient) => {
                    let values = gradient
                        .iter::<f64>()
                        .map(|x| x / scale)
                        .collect::<Vec<_>>();
                    TensorData::new(values, shape_of(&gradient))
                }
                None => TensorData::new(Vec::<f32>::new(), [0]),
            };
            self.note(name, gradient);
        }
    }

    fn read_late(&mut self, values: &mut Values<S::B>) {
        let (mut together, mut read) = (Vec::new(), Vec::new());
        for (place, step) in self.program.steps.iter().enumerate() {
            let number = self.program.leaves.len() + place;
            match step.read {
                Read::Never | Read::AtOnce | Read::BeforeBackward => {}
                Read::AfterBackward => {
                    let value = values[number].take().expect("a value that is read is kept");
                    self.note(self.program.value_name(number), data::<S::B>(value));
                }
                Read::Together => {
                    let value = values[number].take().expect("a value that is read is kept");
                    together.push(self.program.value_name(number));
                    read.push(value);
                }
            }
        }
        if !together.is_empty() {
            let read = TransactionPrimitive::<S::B>::new(read, vec![], vec![], vec![]);
            let read = read_sync(S::B::tr_execute(read)).expect("the backend computes");
            for (name, data) in together.into_iter().zip(read.read_floats) {
                self.note(name, data);
            }
        }
    }

    /// Notes the loss scale of a pass; false if it overflowed.
    fn note_scale(&mut self, grads: &<S::B as AutodiffBackend>::Gradients) -> bool {
        let scale = S::scale(grads);
        self.outcome.scales.extend(scale);
        scale.is_some()
    }

    fn note(&mut self, name: String, data: TensorData) {
        let name = match self.program.passes {
            1 => name,
            _ => format!("{name}, pass {}", self.number),
        };
        self.outcome.results.push((name, data));
    }
}

/// An unrelated backward pass, whose gradients overflow at no loss scale.
fn disturb<B: AutodiffBackend>(to: &Setting<B>) {
    let x = B::float_mul_scalar(to.noise(vec![40, 40], 1), 0.03125.into());
    let x = B::float_set_require_grad(x, true);
    let square = B::float_matmul(x.clone(), x.clone());
    let grads = B::backward(B::float_sum(B::float_matmul(square, x.clone())));
    B::grad(&x, &grads).map(data::<B::InnerBackend>);
}

/// Reads a tensor.
pub fn data<B: Backend>(x: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(x)).expect("the backend computes")
}
