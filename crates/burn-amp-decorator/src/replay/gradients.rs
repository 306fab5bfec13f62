//! The gradients of a step as it ran and in F32.

use burn_amp_core::{
    Precision,
    overflow::Locate,
    replay::{GradientRanges, Step},
};
use burn_amp_kernels::names::dtype_of;
use burn_backend::{TensorData, tensor::Device};

use super::{
    run::{self, Ran, ReplayError},
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
    let form = |all_in| {
        let context = Context::<B>::apart(run::config(step, all_in, Locate::Off)?, device)?;
        let ran = run::ran(step, device, all_in, context, unit::read::<B>, |_| ())?;
        Ok::<_, ReplayError>(values(ran))
    };
    let [found, exact] = [form(None)?, form(Some(Precision::F32))?];
    let pairs = found.iter().zip(&exact).map(|(found, exact)| {
        let pairs = found.iter().zip(exact).map(|(found, exact)| {
            let ((dtype, found), (_, exact)) = (found.as_ref()?, exact.as_ref()?);
            Some((*dtype, &found[..], &exact[..]))
        });
        pairs.collect::<Vec<_>>()
    });
    let mut pairs = pairs;
    let (received, gradients) = (pairs.next(), pairs.next());
    Ok(GradientRanges::of(
        step,
        received.unwrap_or_default(),
        gradients.unwrap_or_default(),
    ))
}

/// The dtype and the values of a gradient.
type Values = Option<(Precision, Vec<f64>)>;

/// The gradients of results, and those of tensors from outside.
fn values(ran: Ran<TensorData>) -> [Vec<Values>; 2] {
    [ran.received, ran.gradients].map(|gradients| {
        let of = |data: TensorData| {
            let dtype = precision::from_burn(dtype_of(&data));
            (dtype, data.iter::<f64>().collect())
        };
        gradients.into_iter().map(|data| data.map(of)).collect()
    })
}
