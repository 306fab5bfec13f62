//! Which steps of optimizers on a device are looked at, and what was seen.

use std::collections::HashMap;

use burn_amp_core::health::{History, Look};
use parking_lot::Mutex;

use crate::warn::Warning;

/// The looks at the optimizers' steps on one device.
#[derive(Debug)]
pub(crate) struct HealthWatch {
    every: u64,
    /// The number of steps of each optimizer so far.
    steps: Mutex<HashMap<u64, u64>>,
    history: Mutex<History>,
}

impl HealthWatch {
    pub(super) fn new(every: u32) -> Self {
        Self {
            every: every.into(),
            steps: Mutex::default(),
            history: Mutex::default(),
        }
    }

    /// Counts a step of an optimizer, and returns its number if it is to be looked at.
    #[inline]
    pub(crate) fn begins(&self, optimizer: u64) -> Option<u64> {
        if self.every == 0 {
            return None;
        }
        let mut steps = self.steps.lock();
        let step = steps.entry(optimizer).or_default();
        *step += 1;
        let step = *step;
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
