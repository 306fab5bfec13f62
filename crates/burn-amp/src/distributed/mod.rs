//! Burn's `distributed` feature: gradients that are all-reduced inside the backward pass.
//!
//! With that feature Burn trains only on backends that have collective operations. `Amp` forwards them to the backend
//! below. An overflow on one rank is in the reduced gradients of all, so every rank finds it and skips: no rank has to
//! [`join`](crate::ranks::join).

use burn_amp_kernels::AmpBackend;

#[cfg(feature = "distributed")]
mod backend;

/// The plain backends that can be trained on.
///
/// With the feature `distributed` only those that have collective operations, otherwise all.
#[cfg(not(feature = "distributed"))]
pub trait Trainable: AmpBackend {}

#[cfg(not(feature = "distributed"))]
impl<B: AmpBackend> Trainable for B {}

/// The plain backends that can be trained on.
///
/// With the feature `distributed` only those that have collective operations, otherwise all.
#[cfg(feature = "distributed")]
pub trait Trainable: burn_backend::distributed::DistributedBackend + AmpBackend {}

#[cfg(feature = "distributed")]
impl<B: burn_backend::distributed::DistributedBackend + AmpBackend> Trainable for B {}
