//! The rule that decides which steps are skipped: whole effective batches, and only those that contain an overflow.
//!
//! An *effective batch* is all that one step is made from: Burn sums the gradients of micro-batches, or of several
//! devices, before the step. A part that overflowed is missing from the sum, so the step must not be made from the
//! other parts. An overflow belongs to the step that would have used its gradients:
//!
//! * With `loss_scale.sync = true` an overflowed backward pass returns `None` for each gradient that is asked for, and
//!   the parameter records when that happened. A step is skipped if a gradient of one of *its* parameters was withheld
//!   since the previous step of the same optimizer. A pass whose gradients are never asked for withholds nothing, and
//!   optimizers of other parameters are not affected.
//! * With `loss_scale.sync = false` a gradient carries the backward passes that it was computed from. A step is skipped
//!   if one of the passes of one of its gradients overflowed.

use burn::{module::AutodiffModule, optim::GradientsParams};

use super::gradients::each;
use burn_amp_decorator::{
    Amped, Trains,
    internal::{Moment, Passes},
    warn::Warning,
};

/// The effective batch that the next step of one optimizer will be made from.
#[derive(Clone, Debug)]
pub(super) struct EffectiveBatch {
    /// The moment at which the optimizer last made or skipped a step.
    since: Moment,
}

impl EffectiveBatch {
    /// Begins an effective batch with the gradients that are computed from now on.
    pub(super) fn begin() -> Self {
        Self {
            since: Moment::now(),
        }
    }

    /// Ends this batch with `grads`, begins the next, and returns whether to step.
    ///
    /// If the outcome is still on the device, this waits for it, unless the optimizer `selects_on_device` between the old and
    /// the new values of all parameters.
    pub(super) fn end<B, M>(
        &mut self,
        grads: &GradientsParams,
        module: &M,
        selects_on_device: bool,
    ) -> bool
    where
        B: Amped + Trains,
        M: AutodiffModule<B>,
    {
        let since = std::mem::replace(&mut self.since, Moment::now());
        let mut withheld = false;
        let mut passes = Passes::none();
        each::<B, M>(grads, module, |parameter, grad| {
            if let Some(joined) = grad.role.gradient() {
                passes.join(joined);
            }
            withheld |=
                (parameter.role.origin()).is_some_and(|origin| origin.withheld_since(since));
        });
        if withheld {
            return false;
        }
        if passes.is_empty() || selects_on_device {
            return true;
        }
        WAITS.give(|| {
            "`loss_scale.sync = false` saves no wait here: this optimizer waits for the device in every step; \
             `AmpOptimizer::new(AdamConfig::new()).init()` does not, nor does one of AdamW or SGD"
                .to_string()
        });
        !passes.overflowed()
    }
}

static WAITS: Warning = Warning::new("sync--false-with-another-optimizer");
