//! Whether anybody watches the calls of ops: one number, which each call looks at.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of watchers.
static WATCHING: AtomicUsize = AtomicUsize::new(0);

/// Whether anybody watches.
#[inline]
pub(crate) fn is_on() -> bool {
    WATCHING.load(Ordering::Relaxed) > 0
}

/// Registers a watcher.
pub(crate) fn begin() {
    WATCHING.fetch_add(1, Ordering::Relaxed);
}

/// Removes a watcher.
pub(crate) fn end() {
    WATCHING.fetch_sub(1, Ordering::Relaxed);
}
