//! The op with which an overflow began, after a backward pass.

use std::sync::Arc;

use burn_amp_core::overflow::Cause;
use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use crate::{cast::locate::is_finite, policy::Context, warn::Warning};

/// Returns the loss, if the step is searched.
pub(super) fn loss<B: AmpBackend>(
    context: &Context<B>,
    root: &FloatTensor<B>,
) -> Option<FloatTensor<B>> {
    context.locator.is_on().then(|| root.clone())
}

/// Ends the search in this step, and returns what it found. Incurs a device-to-host read if the step was searched.
pub(super) fn end_of_step<B: AmpBackend>(
    context: &Context<B>,
    loss: Option<FloatTensor<B>>,
) -> Option<Arc<Cause>> {
    let loss = loss?;
    context.locator.end_of_step(|| is_finite::<B>(&loss))
}

/// Says what was found in a step that nothing will report, because it is not skipped.
pub(super) fn tell(cause: Option<Arc<Cause>>) {
    static FIRST: Warning = Warning::new("not-finite-and-not-skipped");

    if let Some(cause) = cause {
        tracing::info!("burn-amp: a loss or a gradient is not finite; first in {cause}");
        FIRST.give(|| format!("a loss or a gradient is not finite; first in {cause}"));
    }
}
