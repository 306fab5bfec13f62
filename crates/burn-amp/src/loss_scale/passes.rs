//! Backward passes whose outcome may still be on the device.
//!
//! With `loss_scale.sync = false` a gradient carries the passes it was computed from, through every op, so that an
//! optimizer can skip a sum of micro-batches whole. What an optimizer keeps must not carry them for ever: passes whose
//! gradients are known to be finite are dropped when lists are joined, and overflowed ones after
//! [`REMEMBERED`](Passes::REMEMBERED) later passes.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use burn_amp_core::Outcome;
use burn_backend::{Backend, tensor::FloatTensor};

use super::{Scaling, device::scale_of};

/// A backward pass whose outcome may still be on the device.
#[derive(Debug)]
pub struct DeferredPass<B: Backend> {
    /// The state of the loss scale before the pass, see [`loss_scale`](burn_amp_kernels::loss_scale).
    pub(crate) before: FloatTensor<B>,
    /// The state after it.
    pub(crate) after: FloatTensor<B>,
    scaling: &'static Scaling<B>,
    /// The position among all deferred passes of the process.
    number: u64,
    /// The scale and the outcome, once they have reached the host.
    arrived: OnceLock<(f32, Outcome)>,
}

/// The number of deferred passes so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl<B: Backend> DeferredPass<B> {
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
        }
    }

    /// Stores what the flags of this pass said.
    pub(super) fn arrive(&self, scale: f32, outcome: Outcome) {
        // The flags are taken from the queue once, so nobody else has stored it.
        let _ = self.arrived.set((scale, outcome));
    }

    /// The scale and the outcome. Waits for the device.
    pub(crate) fn wait(&self) -> (f32, Outcome) {
        while self.arrived.get().is_none() && self.scaling.device.settle_next(&self.scaling.host) {}
        *self
            .arrived
            .get()
            .expect("a pass that has not arrived is in the queue, or its reader panicked")
    }

    /// The scale that the gradients of this pass carry, as a tensor of rank `rank` with one element.
    pub(crate) fn scale(&self, rank: usize) -> FloatTensor<B> {
        scale_of::<B>(self.before.clone(), rank)
    }

    /// Whether a step that uses gradients of this pass may still have to be skipped.
    fn matters(&self) -> bool {
        match self.arrived.get() {
            None => true,
            Some((_, Outcome::Finite)) => false,
            Some((_, Outcome::Overflowed)) => {
                COUNT.load(Ordering::Relaxed) - self.number <= Passes::<B>::REMEMBERED
            }
        }
    }
}

/// The passes that a gradient was computed from: one for most gradients, none if the host knows their outcome.
///
/// Every gradient has them, so they are one pointer.
#[derive(Debug)]
pub(crate) struct Passes<B: Backend>(Option<Arc<Vec<Arc<DeferredPass<B>>>>>);

impl<B: Backend> Passes<B> {
    /// How many passes later an overflowed pass is forgotten. No effective batch has that many micro-batches.
    const REMEMBERED: u64 = 4096;

    #[inline]
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn of(pass: Arc<DeferredPass<B>>) -> Self {
        Self(Some(Arc::new(vec![pass])))
    }

    /// Adds the passes of another gradient that becomes part of this one.
    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        if let Some(others) = &other.0 {
            self.extend(others);
        }
    }

    #[cold]
    fn extend(&mut self, others: &Arc<Vec<Arc<DeferredPass<B>>>>) {
        let Some(passes) = &mut self.0 else {
            self.0 = Some(others.clone());
            return self.forget_settled();
        };
        for other in others.iter() {
            if !passes.iter().any(|pass| Arc::ptr_eq(pass, other)) {
                Arc::make_mut(passes).push(other.clone());
            }
        }
        self.forget_settled();
    }

    /// Drops the passes that no step depends on any more.
    fn forget_settled(&mut self) {
        let Some(passes) = &mut self.0 else {
            return;
        };
        if !passes.iter().all(|pass| pass.matters()) {
            Arc::make_mut(passes).retain(|pass| pass.matters());
        }
        if passes.is_empty() {
            self.0 = None;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<DeferredPass<B>>> {
        self.0.iter().flat_map(|passes| passes.iter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<B: Backend> Clone for Passes<B> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
