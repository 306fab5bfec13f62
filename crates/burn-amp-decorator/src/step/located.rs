//! The op with which an overflow began, after a backward pass.

use std::sync::Arc;

use burn_amp_core::{
    overflow::{Cause, NotFinite},
    replay::Step,
};
use burn_amp_kernels::AmpBackend;
use burn_amp_kernels::names::device_of;
use burn_autodiff::grads::Gradients;
use burn_backend::tensor::FloatTensor;

use super::recorded;
use crate::{
    cast::locate::is_finite,
    policy::{Context, StepRecording},
    warn::Warning,
};

/// A step that is searched for an overflow, or recorded, before its backward pass.
pub(super) struct SearchedStep<B: AmpBackend> {
    loss: FloatTensor<B>,
    /// The number of the loss among the tensors of the step, if the step is recorded.
    id: u64,
    recording: Option<StepRecording<B>>,
}

/// Ends the forward pass, and returns its loss if the step is searched or recorded.
pub(super) fn loss<B: AmpBackend>(
    context: &Context<B>,
    root: &FloatTensor<B>,
    id: u64,
) -> Option<SearchedStep<B>> {
    let is_recorded = context.is_recording();
    (is_recorded || context.locator.is_on()).then(|| SearchedStep {
        loss: root.clone(),
        id,
        recording: is_recorded.then(|| context.recorder.end_of_step()),
    })
}

/// Ends the step: returns the origin of an overflow, if one was searched, and writes the step to a file, if it is to be.
/// Incurs a device-to-host read if the step was searched.
///
/// `grads` is what Burn's backward pass left, of the loss times `scale`.
pub(super) fn end_of_step<B: AmpBackend>(
    context: &Context<B>,
    searched: Option<SearchedStep<B>>,
    scale: impl FnOnce() -> Option<f32>,
    grads: &Gradients,
) -> Option<Arc<Cause>> {
    let Some(SearchedStep {
        loss,
        id,
        recording,
    }) = searched
    else {
        context.recorder.next_step(context.leaves.passes());
        return None;
    };
    let cause = context.locator.end_of_step(|| is_finite::<B>(&loss));
    let is_origin = |cause: &Arc<Cause>| cause.what != NotFinite::Operand;
    let file = context.recorder.asked_file().or_else(|| {
        let cause = cause.as_ref().filter(|_| recording.is_some())?;
        let replaces = context.recorder.replaces(is_origin(cause));
        replaces.then(|| context.recorder.file())
    });
    context.recorder.next_step(context.leaves.passes());
    if let (Some(recording), Some(file)) = (recording, file) {
        let step = Step {
            burn_amp: env!("CARGO_PKG_VERSION").into(),
            backend: B::name(&device_of::<B>(&loss)),
            config: context.effective().to_string(),
            scale: scale(),
            cause: cause.as_deref().cloned(),
            outside: Vec::new(),
            calls: Vec::new(),
            loss: id,
            tensors: Vec::new(),
            data: Vec::new(),
        };
        recorded::write(context, &file, step, recording, grads);
    }
    cause
}

/// Says what was found in a step that nothing will report, because it is not skipped.
pub(super) fn tell(cause: Option<Arc<Cause>>) {
    static FIRST: Warning = Warning::new("not-finite-and-not-skipped");

    if let Some(cause) = cause {
        tracing::info!("burn-amp: a loss or a gradient is not finite; first in {cause}");
        FIRST.give(|| format!("a loss or a gradient is not finite; first in {cause}"));
    }
}
