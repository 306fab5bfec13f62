//! The graph node of a parameter's cast.

use burn_amp_core::Precision;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, FloatDType, tensor::FloatTensor};

use super::{leaf::Leaf, leaves::Leaves};
use crate::precision;

/// Casts a leaf for one use: each use gets its own node, over values that all uses share.
///
/// The uses must not share the node: a backward pass consumes it, and a second loss that was computed before that pass
/// would lose its gradient. The gradients of the uses accumulate in the leaf's dtype.
pub(super) fn cast<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    leaf: &Leaf<B>,
    to: Precision,
    operands: usize,
    leaves: &Leaves<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let level = leaf.level(leaves.pass(), operands);
    let level = leaves.node_of_level(level, &tensor.primitive);
    let from = precision::to_float(precision::of(&tensor.primitive));
    let low = leaf.cast(tensor.primitive, to);
    match WeightCast
        .prepare::<C>([tensor.node, level.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(from, low),
        OpsKind::UnTracked(prep) => prep.finish(low),
    }
}

/// A cast whose parents are the leaf and an untracked node that raises it to its level.
#[derive(Debug)]
struct WeightCast;

impl<B: Backend> Backward<B, 2> for WeightCast {
    type State = FloatDType;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [leaf, _] = ops.parents;
        unary::<B, _>([leaf], ops.node, grads, |grad| {
            B::float_cast(grad, ops.state)
        });
    }
}
