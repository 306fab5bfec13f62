//! The precisions that are compared, and the policy that each of them is.

use std::fmt;

use burn::{
    backend::Autodiff,
    tensor::{
        DType,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp::{
    Amp, Compute, Config, ConfigError, Kernels, LossScale, PolicySource, Preset, SetupError,
};
use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Plain Burn.
    F32,
    /// burn-amp, BF16.
    Bf16,
    /// burn-amp, F16 with a loss scale.
    F16,
}

impl Precision {
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What to do in a precision: a closure that is generic over the backend.
pub trait InPrecision<P: Backend> {
    type Output;

    /// `B` trains on `P`; `loss_scale` is `None` in plain Burn.
    fn call<B>(self, loss_scale: Option<LossScale>) -> Self::Output
    where
        B: AutodiffBackend<Device = P::Device>;
}

impl Precision {
    /// Puts the precision's policy in force.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong or the device cannot compute in the precision.
    pub fn init<P: Kernels>(self, device: &P::Device) -> Result<(), SetupError> {
        match self {
            Self::F32 => Ok(()),
            Self::Bf16 => burn_amp::init::<Amp<P, Bf16>>(device).map(drop),
            Self::F16 => burn_amp::init::<Amp<P, F16>>(device).map(drop),
        }
    }

    /// Calls `then` with the backend of this precision, whose policy is in force.
    pub fn with<P: Kernels, T: InPrecision<P>>(self, device: &P::Device, then: T) -> T::Output {
        match self {
            Self::F32 => then.call::<Autodiff<P>>(None),
            Self::Bf16 => mixed::<P, Bf16, T>(device, then),
            Self::F16 => mixed::<P, F16, T>(device, then),
        }
    }
}

fn mixed<P, S, T>(device: &P::Device, then: T) -> T::Output
where
    P: Kernels,
    S: PolicySource,
    T: InPrecision<P>,
{
    let loss_scale = burn_amp::loss_scale::<burn_amp::Autodiff<Amp<P, S>>>(device);
    then.call::<burn_amp::Autodiff<Amp<P, S>>>(Some(loss_scale))
}

struct Bf16;

impl PolicySource for Bf16 {
    fn config() -> Result<Config, ConfigError> {
        computing_in(Compute::Bf16)
    }
}

struct F16;

impl PolicySource for F16 {
    fn config() -> Result<Config, ConfigError> {
        computing_in(Compute::F16)
    }
}

/// `amp.toml` and the `BURN_AMP_*` variables, but for the compute dtype and the preset.
fn computing_in(compute: Compute) -> Result<Config, ConfigError> {
    Ok(Config {
        compute,
        preset: Preset::O1,
        ..Config::load()?
    })
}
