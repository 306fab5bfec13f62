//! Gradients in F32 for an op on operands in low precision.

use burn_amp_core::Precision;
use burn_amp_kernels::names::node_of;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, tensor::FloatTensor};

use super::same::Same;
use crate::precision;

/// Runs an op whose backward pass adds gradients onto the elements of its operand, in the dtype of the gradient: with a
/// gradient in F32, which is rounded once, after the sum.
///
/// The values are those of `op`, and no more of them are saved.
pub(super) fn sum_in_f32<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    op: impl FnOnce(FloatTensor<Autodiff<B, C>>) -> FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let stored = precision::of(&tensor.primitive);
    if !stored.is_low() || !tensor.is_tracked() {
        return op(tensor);
    }
    let result = op(pass_gradient_in::<B, C>(tensor, stored));
    pass_gradient_in::<B, C>(result, Precision::F32)
}

/// Returns the same values, in a node that casts the gradient which it passes on.
fn pass_gradient_in<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    dtype: Precision,
) -> FloatTensor<Autodiff<B, C>> {
    let same = Same::of(&tensor);
    match CastGradient
        .prepare::<C>([node_of!(tensor)])
        .memory_bound()
        .retro_forward(same)
        .parents([&tensor])
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(dtype, tensor.primitive),
        OpsKind::UnTracked(prep) => prep.finish(tensor.primitive),
    }
}

#[derive(Debug)]
struct CastGradient;

impl<B: Backend> Backward<B, 1> for CastGradient {
    type State = Precision;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            precision::cast::<B>(grad, ops.state)
        });
    }
}
