//! The graph node of a parameter's cast.

use std::sync::{Arc, Weak};

use burn_amp_core::Precision;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{Backend, FloatDType, tensor::FloatTensor};

use super::{leaf::Leaf, leaves::Leaves};
use crate::precision;

/// Casts a leaf for one use: each use gets its own node, over values that all uses share.
///
/// The uses must not share the node: a backward pass consumes it, and a second loss that was computed before that pass
/// would lose its gradient. The gradients of the uses accumulate in F32.
pub(super) fn cast<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    leaf: &Arc<Leaf<B>>,
    to: Precision,
    operands: usize,
    leaves: &Leaves<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let level = leaf.level(leaves.pass(), operands);
    let level = leaves.node_of_level(level, &tensor.primitive);
    let stored = precision::of(&tensor.primitive);
    let from = Use {
        leaf: Arc::downgrade(leaf),
        dtype: precision::to_float(stored),
        node: stored.is_low().then(|| leaves.handle(&tensor)),
    };
    let values = if stored == to {
        tensor.primitive
    } else {
        leaf.cast(tensor.primitive, to)
    };
    match WeightCast
        .prepare::<C>([tensor.node, level.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(from, values),
        OpsKind::UnTracked(prep) => prep.finish(values),
    }
}

/// A cast whose parents are the leaf and an untracked node that raises it to its level.
#[derive(Debug)]
struct WeightCast;

/// A use of a leaf.
#[derive(Clone, Debug)]
struct Use<B: Backend> {
    leaf: Weak<Leaf<B>>,
    /// The dtype of the leaf.
    dtype: FloatDType,
    /// The node of a leaf stored in half precision, without its values.
    node: Option<FloatTensor<Autodiff<B>>>,
}

impl<B: Backend> Backward<B, 2> for WeightCast {
    type State = Use<B>;

    /// The gradient of a leaf has the leaf's dtype. That of a leaf in half precision does as long as it has one use, so
    /// that it takes two bytes per element. From the second use on it is an F32 sum.
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [leaf, _] = ops.parents;
        let Use {
            leaf: used,
            dtype,
            node,
        } = ops.state;
        if let Some(used) = used.upgrade() {
            used.forget_cast();
        }
        let grad = grads.consume::<B>(&ops.node);
        let Some(leaf) = leaf else {
            return;
        };
        let sum = match node.and_then(|node| grads.remove::<B>(&node)) {
            Some(others) => {
                let [grad, others] =
                    [grad, others].map(|grad| precision::cast::<B>(grad, Precision::F32));
                B::float_add(grad, others)
            }
            None => B::float_cast(grad, dtype),
        };
        grads.register::<B>(leaf.id, sum);
    }
}
