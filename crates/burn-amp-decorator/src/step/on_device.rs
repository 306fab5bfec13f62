//! A scaled backward pass whose outcome stays on the device: `loss_scale.sync = false`.

use burn_amp_core::DynamicLossScale;
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{AutodiffBackend, TensorMetadata, tensor::FloatTensor};

use super::{
    finite,
    gradients::{Gradients, Pass},
    scaled::{self, Root, times_on_device},
};
use crate::{
    distributed::Trainable,
    graph::LeafGradient,
    loss_scale::{Scaling, scale_of},
    policy::ConfigSource,
};

/// Scales the loss by the scale of `scaling`, which is on the device, runs Burn's backward pass and moves the scale. Incurs no device-to-host
/// read.
pub(super) fn backward<B: Trainable, P: ConfigSource, C: CheckpointStrategy>(
    root: FloatTensor<Autodiff<B, C>>,
    scaling: &'static Scaling<B>,
    rule: DynamicLossScale,
) -> Gradients<B> {
    let device = device_of::<B>(&root.primitive);
    let before = scaling.state_on(&device);
    let scale = scale_of::<B>(before.clone(), root.rank());
    let scale = Autodiff::<B, C>::from_inner(scale);
    let node = Root::<B, C>::of(&root);
    let scaled = times_on_device::<Autodiff<B, C>>(root, scale);
    let inner = scaled::backward(&node, scaled);
    let gradients = finite::leaf_gradients::<B, P>(&inner);
    if gradients.iter().all(Vec::is_empty) {
        // A pass that reached no parameter says nothing about the scale, and left no gradients to take out.
        return Gradients {
            inner,
            pass: Pass::UNSCALED,
        };
    }
    let flags = flags(&gradients, &device);
    let pass = scaling.advance(before, flags, finite::names(&gradients), rule);
    Gradients {
        inner,
        pass: Pass::Deferred(pass),
    }
}

/// Returns one flag for each gradient of all devices, on `device`.
fn flags<B: AmpBackend>(by_device: &[Vec<LeafGradient<B>>], device: &B::Device) -> FloatTensor<B> {
    let flags: Vec<_> = by_device
        .iter()
        .filter(|leaves| !leaves.is_empty())
        .map(|leaves| {
            let gradients = leaves.iter().map(|leaf| leaf.gradient.clone()).collect();
            B::float_to_device(kernels::finite::not_finite::<B>(gradients), device)
        })
        .collect();
    B::float_cat(flags, 0)
}
