//! What ran in which precision, and where it overflowed.

use std::sync::Arc;

pub use burn_amp_decorator::diagnose::{
    Advice, Calls, Casting, Cause, Count, Difference, Kept, Lint, NotFinite, OpTotal, Operand,
    PrecisionSnapshot, Range, ReadError, Recording, Report, Sample, ShadowReport, Shadowed,
    Shadowing, Site, SnapshotChanged, Totals, Why, differences, shadow, shadow_in_f64,
    treat_as_library,
};
use burn_tensor::Device;

use crate::{Error, policy};

/// Begins a report of the steps to come on `device`: which op ran how often, in which precision, where and why.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong.
pub fn record(device: &Device) -> Result<Recording, Error> {
    Ok(policy(device)?.record(false))
}

/// As [`record`], with samples of the values that each call computes: how near they are to the limits of the dtype.
///
/// # Errors
///
/// As [`record`].
///
/// # Panics
///
/// As [`record`].
pub fn record_with_samples(device: &Device) -> Result<Recording, Error> {
    Ok(policy(device)?.record(true))
}

/// Returns the op with which the last overflow on `device` began, where `overflow.locate` looks for it.
///
/// # Errors
///
/// As [`record`].
///
/// # Panics
///
/// As [`record`].
pub fn last_overflow(device: &Device) -> Result<Option<Arc<Cause>>, Error> {
    Ok(policy(device)?.last_overflow())
}
