//! The graph node of an operand's cast.

use std::marker::PhantomData;

use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend, affine,
    names::{node_of, recomputes},
    saved::is_recomputed,
};
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer,
        retro_forward::RetroForward,
        state::BackwardStates,
        strategy::{BalancedCheckpointing, CheckpointStrategy},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{Backend, FloatDType, TensorMetadata, tensor::FloatTensor};

use super::recorded::{Recorded, SharedCasts};
use crate::precision;

/// Casts an operand, or returns a cast that an earlier use of the tensor has `recorded`.
///
/// For an op that `recomputes` its result, and under a checkpointing strategy that recomputes, the graph keeps the
/// operand as it is stored, and the backward pass casts it again. Burn's own cast keeps the result. An operand that other
/// ops will read too is kept for them anyway, so it shares the node of its cast whatever the op.
///
/// The gradients of an F32 tensor that several ops read in low precision come together in one node, which adds them in one
/// pass instead of a cast and a sum each.
pub(super) fn cast<B: AmpBackend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    recorded: &Recorded<B>,
    has_clones: bool,
    to: Precision,
    recomputes: bool,
) -> FloatTensor<Autodiff<B, C>> {
    if precision::of(&tensor.primitive) == to {
        return tensor;
    }
    if to.is_low() {
        let values = recorded.low(tensor.primitive.clone(), to);
        if !tensor.is_tracked() {
            return untracked(values);
        }
        let tensor = joined::<B, C>(tensor, recorded, has_clones);
        return if recomputes {
            node::<B, BalancedCheckpointing>(tensor, values)
        } else {
            node::<B, C>(tensor, values)
        };
    }
    let values = precision::cast::<B>(tensor.primitive.clone(), to);
    if !tensor.is_tracked() {
        return untracked(values);
    }
    let has_other_readers = recorded.has_other_readers(has_clones) == Some(true);
    match recorded.casts() {
        Some(casts) if to == Precision::F32 && (recomputes || has_other_readers) => {
            widened::<B>(tensor, casts, values)
        }
        _ if !recomputes => node::<B, C>(tensor, values),
        _ => recomputed::<B>(tensor, values),
    }
}

/// Casts an operand of a product, which takes the node of the tensor in place of one of the cast, and says whether it does: what a
/// graph computes again has a node of its cast.
pub(super) fn for_product<B: AmpBackend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    recorded: &Recorded<B>,
    has_clones: bool,
    to: Precision,
) -> (FloatTensor<Autodiff<B, C>>, bool) {
    let values = recorded.low(tensor.primitive.clone(), to);
    if !tensor.is_tracked() {
        return (untracked(values), false);
    }
    let mut tensor = joined::<B, C>(tensor, recorded, has_clones);
    if recomputes::<C>() || is_recomputed::<B>(&tensor) {
        return (node::<B, C>(tensor, values), false);
    }
    tensor.primitive = values;
    (tensor, true)
}

/// An operand that is read in low precision, in the node that adds the gradients of all its readers if it is F32 and has several.
fn joined<B: AmpBackend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    recorded: &Recorded<B>,
    has_clones: bool,
) -> FloatTensor<Autodiff<B, C>> {
    let is_f32 = precision::of(&tensor.primitive) == Precision::F32;
    let has_other_readers = recorded.has_other_readers(has_clones) == Some(true);
    if is_f32 && (has_other_readers || recorded.adds_gradients()) {
        recorded.with_f32_gradient(tensor, affine::joined::<B, C>)
    } else {
        tensor
    }
}

/// Makes a tensor in no graph. It is known to the graph by a number of its own, since an op may keep its values.
fn untracked<B: AmpBackend>(values: FloatTensor<B>) -> FloatTensor<Autodiff<B>> {
    <FloatTensor<Autodiff<B>>>::new(values)
}

/// Casts to F32: all uses share the node.
fn widened<B: AmpBackend>(
    tensor: FloatTensor<Autodiff<B>>,
    casts: &SharedCasts<B>,
    values: FloatTensor<B>,
) -> FloatTensor<Autodiff<B>> {
    let shared = casts.wide.get_or_init(|| {
        let stored = tensor.primitive.clone();
        let mut cast = recomputed::<B>(tensor, values.clone());
        cast.primitive = stored;
        cast
    });
    let mut cast = shared.clone();
    cast.primitive = values;
    cast
}

/// Casts a tensor in a graph that keeps the tensor, and casts it again in the backward pass.
fn recomputed<B: AmpBackend>(
    tensor: FloatTensor<Autodiff<B>>,
    values: FloatTensor<B>,
) -> FloatTensor<Autodiff<B>> {
    node::<B, BalancedCheckpointing>(tensor, values)
}

/// Makes the node of a cast from `tensor` to `values`, under the checkpointing strategy `C`.
fn node<B: AmpBackend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B>>,
    values: FloatTensor<B>,
) -> FloatTensor<Autodiff<B>> {
    let [from, to] = [&tensor.primitive, &values].map(|tensor| tensor.dtype().into());
    let prep = CastOperand
        .prepare::<C>([node_of!(tensor)])
        .memory_bound()
        .retro_forward(CastAgain::<B> {
            operand: tensor.node.id,
            to,
            backend: PhantomData,
        })
        .parents([&tensor])
        .stateful();
    match prep {
        OpsKind::Tracked(prep) => prep.finish(from, values),
        OpsKind::UnTracked(_) => untracked(values),
    }
}

#[derive(Debug)]
struct CastOperand;

impl<B: AmpBackend> Backward<B, 1> for CastOperand {
    type State = FloatDType;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        affine::pass_on::<B, _, 1>(grad, &ops, ops.state, grads);
    }
}

#[derive(Debug)]
struct CastAgain<B: Backend> {
    operand: NodeId,
    to: FloatDType,
    backend: PhantomData<B>,
}

impl<B: Backend> RetroForward for CastAgain<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let operand = states.get_state::<B::FloatTensorPrimitive>(&self.operand);
        states.save(out, B::float_cast(operand, self.to));
    }
}
