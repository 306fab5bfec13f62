//! The place where every cast can be seen. Off, it costs one predictable branch.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use burn_amp_core::{Dtype, Op};

/// Is told what the decorator does.
pub trait Observer: Send + Sync {
    /// A float operand of `op` (`None` for a custom op) is about to be cast; a shared cast of a parameter counts at every
    /// use. Casts of the backward pass are not seen here: they mirror the forward ones.
    fn cast(&self, op: Option<Op>, from: Dtype, to: Dtype);
}

static ON: AtomicBool = AtomicBool::new(false);
static OBSERVER: RwLock<Option<Arc<dyn Observer>>> = RwLock::new(None);

/// Puts an observer in the place of the one before, for all threads; `None` switches observing off.
pub fn observe(observer: Option<Arc<dyn Observer>>) {
    let mut slot = OBSERVER.write().unwrap_or_else(PoisonError::into_inner);
    ON.store(observer.is_some(), Ordering::Relaxed);
    *slot = observer;
}

#[inline]
pub(crate) fn cast(op: Option<Op>, from: Dtype, to: Dtype) {
    if ON.load(Ordering::Relaxed) {
        tell(op, from, to);
    }
}

#[cold]
fn tell(op: Option<Op>, from: Dtype, to: Dtype) {
    let observer = OBSERVER.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(observer) = &*observer {
        observer.cast(op, from, to);
    }
}

/// Counts casts.
#[derive(Debug, Default)]
pub struct CastCounter(AtomicU64);

impl CastCounter {
    /// The casts seen so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Observer for CastCounter {
    fn cast(&self, _: Option<Op>, _: Dtype, _: Dtype) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
