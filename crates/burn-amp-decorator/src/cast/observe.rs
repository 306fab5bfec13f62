//! A hook that sees every cast. Without an observer it costs one predictable branch.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use burn_amp_core::{Op, Precision};
use parking_lot::RwLock;

/// Receives every cast that the decorator makes; install it with [`set_observer`].
pub trait Observer: Send + Sync {
    /// Called before a float operand of `op` is cast; `op` is `None` for a custom op.
    ///
    /// The uses of a parameter share one cast, but each use is reported. Casts of the backward pass are not reported:
    /// they mirror those of the forward pass.
    fn cast(&self, op: Option<Op>, from: Precision, to: Precision);
}

static ON: AtomicBool = AtomicBool::new(false);
static OBSERVER: RwLock<Option<Arc<dyn Observer>>> = RwLock::new(None);

/// Sets the observer of all threads, replacing the previous one; `None` removes it.
pub fn set_observer(observer: Option<Arc<dyn Observer>>) {
    let mut slot = OBSERVER.write();
    ON.store(observer.is_some(), Ordering::Relaxed);
    *slot = observer;
}

#[inline]
pub(crate) fn cast(op: Option<Op>, from: Precision, to: Precision) {
    if ON.load(Ordering::Relaxed) {
        report(op, from, to);
    }
}

#[cold]
fn report(op: Option<Op>, from: Precision, to: Precision) {
    let observer = OBSERVER.read();
    if let Some(observer) = &*observer {
        observer.cast(op, from, to);
    }
}

/// An [`Observer`] that counts casts.
#[derive(Debug, Default)]
pub struct CastCounter(AtomicU64);

impl CastCounter {
    /// Returns the number of casts seen so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Observer for CastCounter {
    fn cast(&self, _: Option<Op>, _: Precision, _: Precision) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
