use std::any::TypeId;

use burn_autodiff::{
    Autodiff,
    checkpoint::{
        base::Checkpointer,
        strategy::{CheckpointStrategy, NoCheckpointing},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{
    DType, TensorMetadata,
    ops::{ActivationOps, FloatTensorOps},
    tensor::FloatTensor,
};

use super::SignMask;
use crate::{AmpBackend, made};

/// Computes a ReLU as a node that keeps a mask, or the output in low precision.
pub(crate) fn relu<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    // Any other strategy recomputes results, and a mask would cut the chain of recomputed ops.
    if TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
        return Autodiff::<B, C>::relu(x);
    }
    match Masked.prepare::<C>([x.node]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let output = B::relu(x.primitive);
            let saved = match output.dtype() {
                DType::F16 | DType::BF16 => Passed::Output(output.clone()),
                _ => Passed::Mask(made::mask(B::not_positive(output.clone()))),
            };
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(B::relu(x.primitive)),
    }
}

/// Computes a product with zeros and ones as a node that keeps a mask.
pub(crate) fn mul<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    zeros_and_ones: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let [factor, mask] = [&x, &zeros_and_ones].map(|tensor| tensor.primitive.shape());
    if zeros_and_ones.is_tracked() || factor != mask {
        return Autodiff::<B, C>::float_mul(x, zeros_and_ones);
    }
    let zeros_and_ones = zeros_and_ones.primitive;
    let output = B::float_mul(x.primitive, zeros_and_ones.clone());
    match Masked.prepare::<C>([x.node]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let mask = made::mask(B::not_positive(zeros_and_ones));
            prep.finish(Passed::Mask(mask), output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

/// An op through which a gradient passes unchanged, or not at all.
#[derive(Debug)]
struct Masked;

impl<B: AmpBackend> Backward<B, 1> for Masked {
    type State = Passed<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| match ops.state {
            Passed::Mask(mask) => B::zeroed(grad, mask),
            Passed::Output(output) => B::relu_backward(output, grad),
        });
    }
}

/// Where a gradient passes.
#[derive(Clone, Debug)]
enum Passed<B: AmpBackend> {
    /// Where the mask has no element.
    Mask(SignMask<B>),
    /// Where the output of a ReLU is positive. An output in low precision is what the next op keeps too.
    Output(FloatTensor<B>),
}
