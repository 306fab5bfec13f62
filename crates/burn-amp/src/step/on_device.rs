//! A scaled backward pass whose outcome stays on the device: `loss_scale.sync = false`.

use burn_amp_core::DynamicLossScale;
use burn_amp_kernels::Kernels;
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{
    AutodiffBackend, FloatDType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor,
};

use super::{
    finite,
    gradients::{Gradients, Pass},
    times,
};
use crate::{
    distributed::Trainable,
    graph::LeafGradient,
    loss_scale::scale_of,
    policy::{Context, PolicySource},
};

/// Scales the loss by the scale on the device, runs Burn's backward pass and moves the scale. Reads nothing.
pub(super) fn backward<B: Trainable, P: PolicySource, C: CheckpointStrategy>(
    root: FloatTensor<Autodiff<B, C>>,
    context: &'static Context<B>,
    rule: DynamicLossScale,
) -> Gradients<B> {
    let device = B::float_device(&root.primitive);
    let before = context.scaling.state_on(&device);
    let scale = scale_of::<B>(before.clone(), root.rank());
    let root = times::<Autodiff<B, C>>(root, 1.0);
    let scale = Autodiff::<B, C>::from_inner(scale);
    let root = Autodiff::<B, C>::float_mul(root, scale);
    let inner = Autodiff::<B, C>::backward(root);
    let gradients = finite::leaf_gradients::<B, P>(&inner);
    let flags = flags(&gradients, &device);
    let pass = context
        .scaling
        .advance(before, flags, finite::names(&gradients), rule);
    Gradients {
        inner,
        pass: Pass::Deferred(pass),
    }
}

/// One flag for each gradient of all devices, on `device`; a single 0 if there are no gradients.
fn flags<B: Kernels>(by_device: &[Vec<LeafGradient<B>>], device: &B::Device) -> FloatTensor<B> {
    let flags: Vec<_> = by_device
        .iter()
        .filter(|leaves| !leaves.is_empty())
        .map(|leaves| {
            let gradients = leaves.iter().map(|leaf| leaf.gradient.clone()).collect();
            B::float_to_device(B::not_finite(gradients), device)
        })
        .collect();
    if flags.is_empty() {
        B::float_zeros(Shape::new([1]), device, FloatDType::F32)
    } else {
        B::float_cat(flags, 0)
    }
}
