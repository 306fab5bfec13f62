//! A backward pass whose outcome may still be on the device.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use burn_amp_core::Outcome;
use burn_amp_kernels::loss_scale;
use burn_backend::{Backend, Shape, read_sync, tensor::FloatTensor};

use super::{AnyScaling, Scaling};
use crate::warn::See;

/// A backward pass whose outcome may still be on the device.
#[derive(Debug)]
pub struct DeferredPass<B: Backend> {
    /// The state of the loss scale before the pass, see [`loss_scale`](burn_amp_kernels::loss_scale).
    pub before: FloatTensor<B>,
    /// The state after it.
    pub after: FloatTensor<B>,
    scaling: &'static Scaling<B>,
    /// The position among all deferred passes of the process.
    number: u64,
    /// The outcome, once it has reached the host.
    arrived: OnceLock<Outcome>,
    /// The scale of the pass, once the host has asked for it.
    scale: OnceLock<f32>,
}

/// The number of deferred passes so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl<B: Backend> DeferredPass<B> {
    /// The number of later passes after which an overflowed pass is forgotten. No step accumulates that many
    /// micro-batches.
    const REMEMBERED: u64 = 4096;

    pub(super) fn new(
        before: FloatTensor<B>,
        after: FloatTensor<B>,
        scaling: &'static Scaling<B>,
    ) -> Self {
        Self {
            before,
            after,
            scaling,
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            arrived: OnceLock::new(),
            scale: OnceLock::new(),
        }
    }

    /// Stores the outcome, once the flags of this pass have been read.
    pub(super) fn arrive(&self, outcome: Outcome) {
        // The flags are taken from the queue only once, so the outcome has not been stored before.
        let _ = self.arrived.set(outcome);
    }

    /// Returns the scale of this pass, which need not be that of the host. Incurs a device-to-host read.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver it.
    pub(crate) fn scale_on_host(&self) -> f32 {
        *self.scale.get_or_init(|| {
            let scale = loss_scale::scale_of::<B>(self.before.clone());
            let scale = read_sync(B::float_into_data(scale)).unwrap_or_else(|error| {
                panic!(
                    "cannot read the loss scale from the device: {error} {}",
                    See("the-device-fails")
                )
            });
            scale
                .iter::<f32>()
                .next()
                .expect("a state of the loss scale has a scale")
        })
    }

    /// Returns the outcome. Waits for the device.
    pub(crate) fn wait(&self) -> Outcome {
        while self.arrived.get().is_none() && self.scaling.settle_next() {}
        *self
            .arrived
            .get()
            .expect("a pass that has not arrived is in the queue, or its reader panicked")
    }

    /// Returns the scale that the gradients of this pass carry, as a tensor with one element and `rank` dimensions.
    pub(crate) fn scale(&self, rank: usize) -> FloatTensor<B> {
        scale_of::<B>(self.before.clone(), rank)
    }

    /// Whether a step that uses gradients of this pass may still have to be skipped.
    pub(super) fn matters(&self) -> bool {
        match self.arrived.get() {
            None => true,
            Some(Outcome::Finite) => false,
            Some(Outcome::Overflowed) => {
                COUNT.load(Ordering::Relaxed) - self.number <= Self::REMEMBERED
            }
        }
    }
}

/// Returns the scale in a state, as a tensor with one element and `rank` dimensions.
pub(crate) fn scale_of<B: Backend>(state: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    B::float_reshape(loss_scale::scale_of::<B>(state), Shape::from(vec![1; rank]))
}
