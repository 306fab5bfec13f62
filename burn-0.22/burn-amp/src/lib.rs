//! Automatic mixed precision for [Burn](https://burn.dev) 0.22: what goes beyond the patch.
//!
//! A program needs no crate and no line of code to train in mixed precision: a `[patch.crates-io]` in its manifest puts
//! burn-amp in the place of `burn-autodiff`. This crate is for those that configure in code, look at the loss scale, or
//! run a block in F32. Without the patch its functions say so.
//!
//! ```no_run
//! use burn_amp::config::{Compute, Config};
//! use burn_tensor::Device;
//!
//! let device = Device::default().autodiff();
//! let config = Config { compute: Compute::F16, ..Config::default() };
//! burn_amp::configure(&device, config)?;
//! // … train …
//! println!("{} steps were skipped", burn_amp::loss_scale(&device)?.skipped_steps());
//! # Ok::<(), burn_amp::Error>(())
//! ```

#![warn(missing_docs)]

pub mod diagnose;
#[cfg(feature = "train")]
#[path = "../../../crates/burn-amp/src/metric.rs"]
pub mod metric;
#[cfg(feature = "optim")]
pub mod optim;
mod patched;

use std::panic::Location;

use burn_amp_decorator::device_policy::{self, DevicePolicy};
use burn_tensor::{DType, Device};

use config::{Config, SetupError};
use scaling::{LossScale, OwnLossScale};

/// The configuration: the contents of `amp.toml` as types.
pub mod config {
    pub use burn_amp_core::{
        Class, Compute, Config, ConfigError, DynamicLossScale, GradientsConfig, HealthConfig, Key,
        LossScaleConfig, LossScaleMode, LossScaling, Op, OverflowConfig, ParamPattern, Place,
        Precision, Preset, ReplayConfig, ReportConfig, Source, overflow::Locate,
    };
    pub use burn_amp_decorator::{InForceBy, SetupError};
}

/// Gradient scaling: the current loss scale, and one for each thread.
pub mod scaling {
    pub use burn_amp_decorator::{LossScale, LossScaleRecord, Overflow, OwnLossScale, Skip};

    pub use crate::own_loss_scale;
}

/// Why burn-amp cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program trains with Burn's own autodiff, in F32.
    #[error(
        "burn-amp is not in this program, which trains in f32: add to the manifest of its workspace `[patch.crates-io]` with \
         `burn-autodiff = {{ path = \"…/burn-amp/burn-0.22/burn-autodiff\" }}`; `burn-amp doctor` says more"
    )]
    NotPatched,
    /// An optimizer that sees one parameter at a time is to do something with all of them.
    #[error(
        "an optimizer for a `Learner` steps one parameter after the other, so it cannot clip or measure the gradients of all together: \
         use `AmpOptimizer::init` in a loop of your own, or leave out `with_clipping` and `with_gradient_norm`"
    )]
    OneByOne,
    /// The configuration cannot be put in force.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Whether burn-amp is in the program: whether its patch replaces Burn's own `burn-autodiff`.
pub fn is_on() -> bool {
    patched::is_in_force()
}

/// Puts `config` in force on `device`, instead of `amp.toml`. Returns it with the compute dtype that was chosen.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program, the configuration is wrong, the device cannot compute in the dtype
/// that it asks for, or a policy is in force already: it never changes after the first tensor.
#[track_caller]
pub fn configure(device: &Device, config: Config) -> Result<Config, Error> {
    let place = Location::caller();
    Ok(policy(device)?.configure(config, place)?)
}

/// Returns the configuration in force on `device`, with the compute dtype that was chosen. If none is in force yet, that of
/// `amp.toml` and the variables is put in force first.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program, the configuration is wrong, or the device cannot compute in the
/// dtype that it asks for.
pub fn effective_config(device: &Device) -> Result<Config, Error> {
    Ok(policy(device)?.effective_config()?)
}

/// Returns a handle to the loss scale of `device`.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`].
pub fn loss_scale(device: &Device) -> Result<LossScale, Error> {
    Ok(policy(device)?.loss_scale())
}

/// Gives this thread a loss scale of its own on `device`, until the guard is dropped. It starts afresh.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`].
pub fn own_loss_scale(device: &Device) -> Result<OwnLossScale, Error> {
    Ok(policy(device)?.own_loss_scale())
}

/// Runs a function in which all ops compute in F32.
///
/// # Errors
///
/// Returns an error, and does not run the function, if burn-amp is not in the program.
pub fn full_precision<T>(function: impl FnOnce() -> T) -> Result<T, Error> {
    match is_on() {
        true => Ok(burn_amp_decorator::full_precision(function)),
        false => Err(Error::NotPatched),
    }
}

/// The policy of a device, with autodiff or without.
fn policy(device: &Device) -> Result<Box<dyn DevicePolicy>, Error> {
    let device = device.clone().autodiff();
    device_policy::of(|| {
        // The backend answers it without a tensor.
        let _ = device.supports_dtype(DType::F32);
    })
    .ok_or(Error::NotPatched)
}
