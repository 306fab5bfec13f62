//! The identity of a parameter, which remembers its name and when a gradient of it was withheld.

use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use burn_amp_core::{Class, ParamPattern, Precision, class_of_parameter};

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
    /// The low dtype in which an op first read the parameter, which the next value will be needed in, too.
    lowered: OnceLock<Precision>,
    /// The class that `[parameters]` gives to the ops that read this parameter, once its name is known.
    class: OnceLock<Option<Class>>,
    /// Whether an op asked for the class before the name was known.
    was_nameless: AtomicBool,
}

/// A moment in the order of all withheld gradients of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// The number of gradients withheld so far.
static WITHHELD: AtomicU64 = AtomicU64::new(0);

impl Moment {
    /// Returns the present moment, which is later than all before.
    pub fn now() -> Self {
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
    pub fn name(&self) -> &ParamName {
        &self.name
    }

    /// Returns the class that the rules in `[parameters]` give to the ops that read this parameter.
    pub fn class(&self, rules: &BTreeMap<ParamPattern, Class>) -> Option<Class> {
        if let Some(class) = self.class.get() {
            return *class;
        }
        let Some(name) = self.name.get() else {
            self.was_nameless.store(true, Ordering::Relaxed);
            return None;
        };
        *self.class.get_or_init(|| class_of_parameter(rules, name))
    }

    /// Whether an op has asked for the class before the name was known.
    pub fn was_nameless(&self) -> bool {
        self.was_nameless.load(Ordering::Relaxed)
    }

    /// Returns the low dtype in which ops read this parameter, if one has.
    pub fn lowered(&self) -> Option<Precision> {
        self.lowered.get().copied()
    }

    /// Records that an op reads this parameter in a low dtype.
    pub(super) fn lower(&self, to: Precision) {
        if to.is_low() {
            self.lowered.get_or_init(|| to);
        }
    }

    /// Whether a gradient of this parameter was withheld after `moment`.
    pub fn withheld_since(&self, moment: Moment) -> bool {
        self.withheld_at.load(Ordering::Acquire) > moment.0
    }
}
