use std::any::TypeId;

use burn_autodiff::checkpoint::strategy::{CheckpointStrategy, NoCheckpointing};
use burn_backend::tensor::{BoolTensor, FloatTensor};

use super::ScaleMask;
use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked},
};

/// Computes the op as one node of the graph. It keeps the output, or the operand under a checkpointing strategy that
/// computes results again.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> Tracked<B, C> {
    let keeps_output = TypeId::of::<C>() == TypeId::of::<NoCheckpointing>();
    let saved = |output: &FloatTensor<B>| Saved::<B> {
        output: keeps_output.then(|| output.clone()),
        dim,
        before: before.clone(),
    };
    let again = {
        let before = before.clone();
        move |[x]: [FloatTensor<B>; 1]| B::scaled_masked_softmax(x, dim, before.clone())
    };
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| !keeps_output, again);
    let output = B::scaled_masked_softmax(x.primitive, dim, before.clone());
    node.finish(output, saved)
}

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    /// The output; `None` if it is computed again.
    output: Option<FloatTensor<B>>,
    dim: usize,
    /// What the operand goes through first.
    before: ScaleMask<BoolTensor<B>>,
}

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self {
            output,
            dim,
            before,
        } = self;
        let output = output.unwrap_or_else(|| {
            let x = pass.operand(0).expect("the operand is read");
            B::scaled_masked_softmax(x, dim, before.clone())
        });
        let grad = pass.gradient();
        let gradient = B::scaled_masked_softmax_backward(output, grad, dim, before);
        pass.register(0, seen::<B>(gradient));
    }
}
