//! Whether the calls on a device are searched for the one that overflows, and what was found.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use burn_amp_core::overflow::{Cause, Locate, Made, NotFinite};
use parking_lot::Mutex;

use crate::watching;

/// The search for the first call of a step that overflows, on one device.
pub(crate) struct Locator {
    mode: Locate,
    /// Whether the calls of the current step are searched.
    on: AtomicBool,
    found: Mutex<Found>,
    /// The number of steps that had been skipped when the last pass began.
    skipped_steps: AtomicU64,
    /// The last cause that was found.
    last: Mutex<Option<Arc<Cause>>>,
    /// Who made the tensors of the current step, by their numbers in the graph.
    makers: Mutex<HashMap<u64, Made>>,
}

/// What was found in the current step. Of each kind only the first counts.
#[derive(Debug, Default)]
struct Found {
    /// An op made inf or NaN of finite operands.
    result: Option<Cause>,
    /// An operand that no op had made was not finite. Masks are often -inf, so this is no cause if there is a better one.
    operand: Option<Cause>,
    /// A gradient in the backward pass was not finite.
    gradient: Option<Cause>,
}

impl Locator {
    pub(super) fn new(mode: Locate) -> Self {
        let locator = Self {
            mode,
            on: AtomicBool::new(false),
            found: Mutex::default(),
            skipped_steps: AtomicU64::new(0),
            last: Mutex::default(),
            makers: Mutex::default(),
        };
        locator.turn(mode == Locate::Always);
        locator
    }

    /// Whether the calls of the current step are searched.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether this kind of finding is still looked for.
    pub(crate) fn looks_for(&self, what: &NotFinite) -> bool {
        let found = self.found.lock();
        match what {
            NotFinite::Result | NotFinite::Operand => found.result.is_none(),
            NotFinite::Gradient { .. } | NotFinite::Sum => found.gradient.is_none(),
        }
    }

    /// Notes who made a tensor of the current step.
    pub(crate) fn made(&self, number: u64, made: Made) {
        /// A program that makes no backward pass ends no step: then the oldest are of no use.
        const MOST: usize = 1 << 16;

        let mut makers = self.makers.lock();
        if makers.len() >= MOST {
            makers.clear();
        }
        makers.insert(number, made);
    }

    /// Returns who made a tensor, if an op of the current step did.
    pub(crate) fn maker(&self, number: u64) -> Option<Made> {
        self.makers.lock().get(&number).cloned()
    }

    /// Notes a finding, unless there was one of its kind in this step.
    pub(crate) fn find(&self, cause: Cause) {
        let mut found = self.found.lock();
        let slot = match cause.what {
            NotFinite::Result => &mut found.result,
            NotFinite::Operand => &mut found.operand,
            NotFinite::Gradient { .. } | NotFinite::Sum => &mut found.gradient,
        };
        slot.get_or_insert(cause);
    }

    /// Ends the search in this step, after its backward pass. Returns the cause if something was not finite, the loss or,
    /// if that `is_finite`, a gradient.
    pub(crate) fn end_of_step(&self, loss_is_finite: impl FnOnce() -> bool) -> Option<Arc<Cause>> {
        if !self.is_on() {
            return None;
        }
        self.makers.lock().clear();
        let Found {
            result,
            operand,
            gradient,
        } = std::mem::take(&mut *self.found.lock());
        let cause = if loss_is_finite() {
            // What became inf or NaN in the forward pass came first, although the loss does not show it: a ReLU turns NaN
            // into 0, and 1 / inf is 0. A logarithm of zeros may be meant as a mask, unless a gradient is made of it.
            let follows = |cause: &Cause| cause.operands.iter().any(|x| !x.range.is_finite());
            match (gradient, result) {
                (Some(gradient), Some(result))
                    if follows(&gradient) || !result.values.is_masked() =>
                {
                    Some(result)
                }
                (gradient, _) => gradient,
            }
        } else {
            result.or(operand).or(gradient)
        };
        let cause = cause.map(Arc::new);
        if let Some(cause) = &cause {
            *self.last.lock() = Some(cause.clone());
        }
        cause
    }

    /// The last cause that was found.
    pub(crate) fn last(&self) -> Option<Arc<Cause>> {
        self.last.lock().clone()
    }

    /// Decides whether the next step is searched, by the number of steps that were skipped so far.
    pub(crate) fn next_step(&self, skipped_steps: u64) {
        if self.mode == Locate::OnSkip {
            let before = self.skipped_steps.swap(skipped_steps, Ordering::Relaxed);
            self.turn(skipped_steps > before);
        }
    }

    /// Searches no more.
    pub(crate) fn stop(&self) {
        self.turn(false);
    }

    fn turn(&self, on: bool) {
        if self.on.swap(on, Ordering::Relaxed) != on {
            match on {
                true => watching::begin(),
                false => watching::end(),
            }
        }
    }
}

impl Drop for Locator {
    /// A context that lost the race to be the one of its device is dropped.
    fn drop(&mut self) {
        self.turn(false);
    }
}

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locator")
            .field("mode", &self.mode)
            .field("on", &self.is_on())
            .finish_non_exhaustive()
    }
}
