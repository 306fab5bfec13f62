//! Access to the backward passes that a gradient carries, see [`Passes`].

use burn::tensor::{Tensor, TensorPrimitive};
use burn_amp_core::Outcome;
use burn_amp_kernels::AmpBackend;

use crate::{backend::Amped, graph::NoGraph, loss_scale::Passes, tensor::Role};

/// Whether one of the passes overflowed. Waits for the device.
pub(super) fn overflowed<B: AmpBackend>(passes: &Passes<B>) -> bool {
    passes.iter().any(|pass| pass.wait() == Outcome::Overflowed)
}

/// Returns the passes that a gradient was computed from.
pub(super) fn passes_of<B: Amped<Graph = NoGraph>, const D: usize>(
    gradient: Tensor<B, D>,
) -> Passes<B::Plain> {
    let gradient = gradient.into_primitive().tensor();
    gradient.role.gradient().cloned().unwrap_or(Passes::none())
}

/// Separates a gradient from the passes that it was computed from.
pub(super) fn take_passes<B: Amped<Graph = NoGraph>, const D: usize>(
    gradient: Tensor<B, D>,
) -> (Tensor<B, D>, Passes<B::Plain>) {
    let passes = passes_of(gradient.clone());
    (with_passes(gradient, Passes::none()), passes)
}

/// Replaces the passes of a gradient.
pub(super) fn with_passes<B: Amped<Graph = NoGraph>, const D: usize>(
    gradient: Tensor<B, D>,
    passes: Passes<B::Plain>,
) -> Tensor<B, D> {
    let mut gradient = gradient.into_primitive().tensor();
    let passes = match gradient.role.gradient() {
        Some(before) => before.replaced_by(passes),
        None => passes,
    };
    gradient.role = Role::Gradient(passes);
    Tensor::from_primitive(TensorPrimitive::Float(gradient))
}
