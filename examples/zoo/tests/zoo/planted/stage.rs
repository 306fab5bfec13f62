//! Above `Amp`: chooses the call that overflows, and notes which it was.

use std::{cell::RefCell, marker::PhantomData};

use burn_amp_core::{Class, Op, Precision};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, TensorData, TensorMetadata, tensor::FloatTensor};
use instrumented::{Instrument, Value};

use super::{
    InF16, Inner,
    fault::{self, Fails},
    is_planted,
    line::line_of_zoo,
};

/// Where a call overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Forward,
    Backward,
}

/// What a diagnosis should find.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    pub op: Op,
    pub file: String,
    pub line: u32,
    /// The paths of the parameters among the operands.
    pub parameters: Vec<String>,
    pub shapes: Vec<Vec<usize>>,
}

#[derive(Default)]
struct Play {
    /// The number of calls so far that could be chosen.
    calls: usize,
    chosen: Option<(usize, Way)>,
    /// The values of each parameter, with its path.
    parameters: Vec<(String, TensorData)>,
    truth: Option<Truth>,
    /// Whether the fault was set.
    is_set: bool,
}

thread_local! {
    static PLAY: RefCell<Play> = RefCell::default();
}

/// Runs a step in which one call overflows, or none. Returns the number of calls that could be chosen, and the truth if
/// the call has overflowed.
pub fn play(
    chosen: Option<(usize, Way)>,
    parameters: Vec<(String, TensorData)>,
    step: impl FnOnce(),
) -> (usize, Option<Truth>) {
    PLAY.set(Play {
        chosen,
        parameters,
        ..Play::default()
    });
    step();
    let missed = fault::clear();
    let play = PLAY.take();
    (play.calls, play.truth.filter(|_| play.is_set && !missed))
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Stage;

impl Instrument<InF16> for Stage {
    /// How this call overflows, if it is the one.
    type Seen = Option<Way>;

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, InF16>>) -> Option<Way> {
        // Ops without a class make tensors, read or move them.
        if op.class(Precision::F16).is_none() || !is_planted(op) {
            return None;
        }
        let operands: Vec<_> = operands.filter_map(Value::float).collect();
        if operands.is_empty() {
            return None;
        }
        let (at, chosen) = PLAY.with_borrow_mut(|play| {
            play.calls += 1;
            (play.calls - 1, play.chosen)
        });
        let (_, way) = chosen.filter(|(chosen, _)| *chosen == at)?;
        if way == Way::Backward && passes_gradient(op) {
            return None;
        }
        let (file, line) = line_of_zoo()?;
        let path = |tensor: &&mut FloatTensor<InF16>| {
            let data = fault::values::<InF16>((**tensor).clone());
            PLAY.with_borrow(|play| {
                let mut parameters = play.parameters.iter();
                let found = parameters.find(|(_, values)| *values == data);
                found.map(|(path, _)| path.clone())
            })
        };
        let truth = Truth {
            op,
            file,
            line,
            parameters: operands.iter().filter_map(path).collect(),
            shapes: operands
                .iter()
                .map(|x| x.shape().as_slice().to_vec())
                .collect(),
        };
        if way == Way::Forward {
            fault::set(Fails::Next);
        }
        PLAY.with_borrow_mut(|play| play.truth = Some(truth));
        Some(way)
    }

    fn after<'a>(way: Option<Way>, results: impl Iterator<Item = Value<'a, InF16>>) {
        match way {
            None => {}
            Some(Way::Forward) => {
                let is_set = !fault::clear();
                PLAY.with_borrow_mut(|play| play.is_set = is_set);
            }
            Some(Way::Backward) => {
                for result in results.filter_map(Value::float) {
                    *result =
                        InF16::custom_op(Class::Keep, [result.clone()], |[inner]| marked(inner));
                }
            }
        }
    }
}

/// Whether the backward pass of an op may compute nothing, and hand its gradient on.
fn passes_gradient(op: Op) -> bool {
    matches!(
        op,
        Op::float_add | Op::float_sub | Op::float_add_scalar | Op::float_sub_scalar
    )
}

/// The same values, in a node that has the first reader of their gradient fail.
fn marked(tensor: FloatTensor<Autodiff<Inner>>) -> FloatTensor<Autodiff<Inner>> {
    if !tensor.is_tracked() {
        return tensor;
    }
    let prep = Mark::<Inner>(PhantomData)
        .prepare::<NoCheckpointing>([tensor.node.clone()])
        .compute_bound()
        .stateful();
    match prep {
        OpsKind::Tracked(prep) => prep.finish((), tensor.primitive),
        OpsKind::UnTracked(prep) => prep.finish(tensor.primitive),
    }
}

#[derive(Debug)]
struct Mark<B>(PhantomData<B>);

impl<B: Backend> Backward<B, 1> for Mark<B> {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            // The other operand of a sum has the same gradient: a factor tells them apart.
            let gradient = B::float_mul_scalar(gradient, (1.0 + 2f32.powi(-7)).into());
            let values = fault::values::<B>(gradient.clone());
            if values.iter::<f32>().any(|x| x != 0.0) {
                fault::set(Fails::Reader(values));
                PLAY.with_borrow_mut(|play| play.is_set = true);
            }
            gradient
        });
    }
}
