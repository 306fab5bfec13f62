//! Burn's `distributed` feature: gradients that are all-reduced inside the backward pass.
//!
//! With that feature Burn trains only on backends that have collective operations. `Amp` forwards them to the inner
//! backend. An overflow on one rank (one of the workers that train replicas of a model) is in the reduced gradients of
//! all ranks, so each of them finds it and skips the step: no rank has to [`join`](crate::ranks::join).

use burn_amp_kernels::AmpBackend;

#[cfg(all(not(burn_0_22), feature = "distributed"))]
mod backend;
#[cfg(burn_0_22)]
mod ops;

/// A plain backend that `Autodiff<Amp<B>>` can train on.
///
/// With the feature `distributed` these are the backends that have collective operations, otherwise all.
#[cfg(any(burn_0_22, not(feature = "distributed")))]
pub trait Trainable: AmpBackend {}

#[cfg(any(burn_0_22, not(feature = "distributed")))]
impl<B: AmpBackend> Trainable for B {}

/// A plain backend that `Autodiff<Amp<B>>` can train on.
///
/// With the feature `distributed` these are the backends that have collective operations, otherwise all.
#[cfg(all(not(burn_0_22), feature = "distributed"))]
pub trait Trainable: burn_backend::distributed::DistributedBackend + AmpBackend {}

#[cfg(all(not(burn_0_22), feature = "distributed"))]
impl<B: burn_backend::distributed::DistributedBackend + AmpBackend> Trainable for B {}
