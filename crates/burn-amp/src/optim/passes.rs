//! Access to the backward passes that a gradient carries, see [`Passes`].

use std::sync::Arc;

use burn::tensor::{Tensor, TensorPrimitive};
use burn_amp_core::Outcome;
use burn_amp_kernels::AmpBackend;

use crate::{
    backend::Amped,
    graph::NoGraph,
    loss_scale::{DeferredPass, Passes},
    tensor::Nature,
};

/// Whether one of the passes overflowed. Waits for the device.
pub(super) fn overflowed<B: AmpBackend>(passes: &Passes<B>) -> bool {
    passes
        .iter()
        .any(|pass: &Arc<DeferredPass<B>>| pass.wait() == Outcome::Overflowed)
}

/// Separates a gradient from the passes that it was computed from.
pub(super) fn take_passes<B: Amped<Graph = NoGraph>, const D: usize>(
    gradient: Tensor<B, D>,
) -> (Tensor<B, D>, Passes<B::Plain>) {
    let mut gradient = gradient.into_primitive().tensor();
    let passes = match &mut gradient.nature {
        Nature::Gradient(passes) => std::mem::replace(passes, Passes::none()),
        _ => Passes::none(),
    };
    let gradient = Tensor::from_primitive(TensorPrimitive::Float(gradient));
    (gradient, passes)
}

pub(super) fn with_passes<B: Amped<Graph = NoGraph>, const D: usize>(
    gradient: Tensor<B, D>,
    passes: Passes<B::Plain>,
) -> Tensor<B, D> {
    let mut gradient = gradient.into_primitive().tensor();
    gradient.nature = Nature::Gradient(passes);
    Tensor::from_primitive(TensorPrimitive::Float(gradient))
}
