//! Which steps of optimizers on a device are looked at, and what was seen.

use std::sync::atomic::{AtomicU64, Ordering};

use burn_amp_core::health::{History, Look};
use parking_lot::Mutex;

use crate::warn::Warning;

/// The looks at the optimizers' steps on one device.
#[derive(Debug)]
pub(crate) struct HealthWatch {
    every: u64,
    /// The number of steps so far.
    steps: AtomicU64,
    history: Mutex<History>,
}

impl HealthWatch {
    pub(super) fn new(every: u32) -> Self {
        Self {
            every: every.into(),
            steps: AtomicU64::new(0),
            history: Mutex::default(),
        }
    }

    /// Counts a step, and returns its number if it is to be looked at.
    #[inline]
    pub(crate) fn begins(&self) -> Option<u64> {
        if self.every == 0 {
            return None;
        }
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        step.is_multiple_of(self.every).then_some(step)
    }

    /// Adds a look, and warns of what has been wrong for long.
    pub(crate) fn add(&self, look: Look) {
        for concern in self.history.lock().add(look) {
            Warning::again("an-unhealthy-run", || concern.to_string());
        }
    }

    /// The looks so far.
    pub(crate) fn looks(&self) -> Vec<Look> {
        self.history.lock().looks().to_vec()
    }
}
