//! The identity of a parameter, which remembers its name and when a gradient of it was withheld.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::param_name::ParamName;

/// The identity of a parameter, shared by its copies: clones, forks, copies on other devices.
///
/// A training loop may sum the gradients of several backward passes before one step: micro-batches, or the batches of
/// several devices. After an overflow a gradient that is asked for is withheld, and the parameter records the moment,
/// so that the optimizer can skip the step that would have used the gradient.
#[derive(Debug, Default)]
pub struct Origin {
    /// The [`Moment`] at which a gradient was last withheld; 0 if none was.
    withheld_at: AtomicU64,
    /// The path of the parameter in its module, for reports.
    name: ParamName,
}

/// A moment in the order of all withheld gradients of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// The number of gradients withheld so far.
static WITHHELD: AtomicU64 = AtomicU64::new(0);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(WITHHELD.load(Ordering::Acquire))
    }
}

impl Origin {
    /// Records that a gradient of this parameter was asked for and withheld, because its backward pass overflowed.
    pub(crate) fn withhold(&self) {
        let now = WITHHELD.fetch_add(1, Ordering::AcqRel) + 1;
        self.withheld_at.fetch_max(now, Ordering::AcqRel);
    }

    /// Returns the name of this parameter, which may become known later.
    pub(crate) fn name(&self) -> &ParamName {
        &self.name
    }

    /// Whether a gradient of this parameter was withheld after `moment`.
    pub(crate) fn withheld_since(&self, moment: Moment) -> bool {
        self.withheld_at.load(Ordering::Acquire) > moment.0
    }
}
