//! The gradients of a step as it ran and in F32.

use burn_amp_core::{
    Precision,
    overflow::Locate,
    replay::{GradientPair, GradientRanges, Step},
};
use burn_amp_kernels::names::dtype_of;
use burn_backend::{TensorData, tensor::Device};

use super::{
    run::{self, ReplayError},
    unit,
};
use crate::{distributed::Trainable, policy::Context, precision};

/// Runs a step in the dtypes in which it was recorded and in F32, and counts how much of each gradient is at an end of the range
/// of its dtype, or was flushed to zero.
///
/// # Errors
///
/// The step cannot be run in one of the forms.
pub fn gradient_ranges<B: Trainable>(
    step: &Step,
    device: &Device<B>,
) -> Result<GradientRanges, ReplayError> {
    let form = |all_in| -> Result<_, ReplayError> {
        let context = Context::<B>::apart(run::config(step, all_in, Locate::Off)?, device)?;
        run::ran(step, device, all_in, context, unit::read::<B>, |_| ())
    };
    let [found, exact] = [form(None)?, form(Some(Precision::F32))?];
    Ok(GradientRanges::of(
        step,
        pairs(found.received, exact.received),
        pairs(found.gradients, exact.gradients),
    ))
}

/// Gradients in two forms, side by side.
fn pairs(found: Vec<Option<TensorData>>, exact: Vec<Option<TensorData>>) -> Vec<GradientPair> {
    let pairs = found.into_iter().zip(exact).map(|(found, exact)| {
        let (found, exact) = found.zip(exact)?;
        let dtype = precision::from_burn(dtype_of(&found));
        Some((dtype, found.iter().collect(), exact.iter().collect()))
    });
    pairs.collect()
}
