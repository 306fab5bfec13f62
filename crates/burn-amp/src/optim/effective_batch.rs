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

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};

use super::passes::{overflowed, passes_of, with_passes};
use crate::{
    backend::Amped,
    graph::{Moment, NoGraph},
    loss_scale::Passes,
    warn::Warning,
};

/// The effective batch that the next step of one optimizer will be made from.
#[derive(Clone, Debug)]
pub(super) struct EffectiveBatch {
    /// The moment at which the optimizer last made or skipped a step.
    since: Moment,
}

/// The decision on an effective batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The step is made; the device may still select the old parameters.
    Make,
    /// The step is skipped, because a part of the batch overflowed.
    Skip,
}

impl EffectiveBatch {
    /// Begins an effective batch with the gradients that are computed from now on.
    pub(super) fn begin() -> Self {
        Self {
            since: Moment::now(),
        }
    }

    /// Ends this batch with `grads`, begins the next, and decides whether to step.
    ///
    /// If the outcome is still on the device and the optimizer `selects_on_device`, each of `grads` afterwards carries
    /// the passes of all of them, so that the old or the new values are selected for all parameters alike. Otherwise
    /// this waits for the outcome.
    pub(super) fn end<B, M>(
        &mut self,
        grads: &mut GradientsParams,
        module: &M,
        selects_on_device: bool,
    ) -> Step
    where
        B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
        M: AutodiffModule<B>,
    {
        let since = std::mem::replace(&mut self.since, Moment::now());
        let mut parts = BatchParts::<B> {
            grads,
            since,
            withheld: false,
            passes: Passes::none(),
        };
        module.visit(&mut parts);
        let BatchParts {
            withheld, passes, ..
        } = parts;
        if withheld {
            return Step::Skip;
        }
        if passes.is_empty() {
            return Step::Make;
        }
        if selects_on_device {
            module.visit(&mut SetPasses::<B> { grads, passes });
            return Step::Make;
        }
        WAITS.give(|| {
            "`loss_scale.sync = false` saves no wait here: this optimizer waits for the device in every step; \
             `AmpOptimizer::new(AdamConfig::new()).init()` does not, nor does one of AdamW or SGD"
                .to_string()
        });
        if overflowed(&passes) {
            return Step::Skip;
        }
        let passes = Passes::none();
        module.visit(&mut SetPasses::<B> { grads, passes });
        Step::Make
    }
}

static WAITS: Warning = Warning::new("sync--false-with-another-optimizer");

/// The parts of an effective batch, and what is known about their outcome.
struct BatchParts<'a, B: AutodiffBackend<InnerBackend: Amped>> {
    grads: &'a GradientsParams,
    since: Moment,
    /// Whether a gradient of one of the parameters was withheld.
    withheld: bool,
    /// The backward passes whose outcome is on the device.
    passes: Passes<<B::InnerBackend as Amped>::Plain>,
}

impl<B> ModuleVisitor<B> for BatchParts<'_, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(grad) = self.grads.get::<B::InnerBackend, D>(param.id) else {
            return;
        };
        self.passes.join(&passes_of(grad));
        if let TensorPrimitive::Float(tensor) = param.val().into_primitive()
            && let Some(origin) = tensor.role.origin()
        {
            self.withheld |= origin.withheld_since(self.since);
        }
    }
}

/// Replaces the passes of all gradients.
struct SetPasses<'a, B: AutodiffBackend<InnerBackend: Amped>> {
    grads: &'a mut GradientsParams,
    passes: Passes<<B::InnerBackend as Amped>::Plain>,
}

impl<B> ModuleVisitor<B> for SetPasses<'_, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) {
            let grad = with_passes(grad, self.passes.clone());
            self.grads.register(param.id, grad);
        }
    }
}
