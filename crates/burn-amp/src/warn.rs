//! Warnings that a process gives once.

use std::sync::Once;

/// A warning that is given at most once in a process.
///
/// It goes to `tracing` and to standard error: many programs install no subscriber, and what is warned of here changes
/// the result of a training run.
pub(crate) struct Warning(Once);

impl Warning {
    pub(crate) const fn new() -> Self {
        Self(Once::new())
    }

    /// Gives the warning, unless it was given before.
    #[cold]
    pub(crate) fn give(&self, message: impl FnOnce() -> String) {
        self.0.call_once(|| {
            let message = message();
            tracing::warn!("burn-amp: {message}");
            eprintln!("burn-amp: warning: {message}");
        });
    }
}
