use std::any::TypeId;

use burn_autodiff::{
    Autodiff,
    checkpoint::strategy::{CheckpointStrategy, NoCheckpointing},
};
use burn_backend::{
    DType, TensorMetadata,
    ops::{ActivationOps, FloatTensorOps},
    tensor::FloatTensor,
};

use super::SignMask;
use crate::{
    AmpBackend,
    graph::{Node, Pass, Recording, Tracked},
    made,
};

/// Computes a ReLU as a node that keeps a mask, or the output in low precision.
pub(crate) fn relu<B: AmpBackend, C: CheckpointStrategy>(x: Tracked<B, C>) -> Tracked<B, C> {
    // Any other strategy recomputes results, and a mask would cut the chain of recomputed ops.
    if TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
        return Autodiff::<B, C>::relu(x);
    }
    let node = Recording::<B, C, _, 1>::new([&x], |_| false);
    node.finish(B::relu(x.primitive), |output| match output.dtype() {
        DType::F16 | DType::BF16 => Passed::Output::<B>(output.clone()),
        _ => Passed::Mask(made::mask(B::not_positive(output.clone()))),
    })
}

/// Computes a product with zeros and ones as a node that keeps a mask.
pub(crate) fn mul<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    zeros_and_ones: Tracked<B, C>,
) -> Tracked<B, C> {
    let [factor, mask] = [&x, &zeros_and_ones].map(|tensor| tensor.primitive.shape());
    if zeros_and_ones.is_tracked() || factor != mask {
        return Autodiff::<B, C>::float_mul(x, zeros_and_ones);
    }
    let node = Recording::<B, C, _, 1>::new([&x], |_| false);
    let zeros_and_ones = zeros_and_ones.primitive;
    let output = B::float_mul(x.primitive, zeros_and_ones.clone());
    node.finish(output, |_| {
        Passed::Mask::<B>(made::mask(B::not_positive(zeros_and_ones)))
    })
}

/// Where a gradient passes unchanged; elsewhere it does not pass at all.
#[derive(Clone, Debug)]
enum Passed<B: AmpBackend> {
    /// Where the mask has no element.
    Mask(SignMask<B>),
    /// Where the output of a ReLU is positive. An output in low precision is what the next op keeps too.
    Output(FloatTensor<B>),
}

impl<B: AmpBackend> Node<B> for Passed<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = match self {
            Self::Mask(mask) => B::zeroed(grad, mask),
            Self::Output(output) => B::relu_backward(output, grad),
        };
        pass.register(0, gradient);
    }
}
