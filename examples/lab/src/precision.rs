//! The precisions that are compared, as a table, and the policy that each of them is.

use burn::{
    backend::Autodiff,
    tensor::{DType, backend::AutodiffBackend},
};
use burn_amp::{
    Amp, AmpBackend, Class, Compute, Config, ConfigError, Kernels, LossScale, LossScaleConfig,
    LossScaleMode, Op, PolicySource, Preset, SetupError,
};
use clap::{ValueEnum, builder::PossibleValue};

use crate::recipe::{MastersInF32, Recipe, StoredInF32};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    F32,
    AmpBf16,
    AmpF16,
    AmpF16Static128,
    AmpF16Unscaled,
    AmpDecomposed,
    O2,
}

impl Precision {
    pub const ALL: [Self; 7] = [
        Self::F32,
        Self::AmpBf16,
        Self::AmpF16,
        Self::AmpF16Static128,
        Self::AmpF16Unscaled,
        Self::AmpDecomposed,
        Self::O2,
    ];

    /// As `bench/pytorch` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => bench_entries::F32,
            Self::AmpBf16 => "amp-bf16",
            Self::AmpF16 => "amp-f16",
            Self::AmpF16Static128 => "amp-f16-static-128",
            Self::AmpF16Unscaled => "amp-f16-unscaled",
            Self::AmpDecomposed => "amp-decomposed",
            Self::O2 => "o2",
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::F32 => "plain Burn",
            Self::AmpBf16 => "BF16",
            Self::AmpF16 => "F16, dynamic loss scale from 65536",
            Self::AmpF16Static128 => "F16, loss scale 128; overflowed steps are skipped",
            Self::AmpF16Unscaled => {
                "F16 without loss scale: what the others cost more is the scaler's"
            }
            Self::AmpDecomposed => {
                "BF16, or F16 where there is none, with Burn's softmax, layer norm and gelu in the place of the kernels"
            }
            Self::O2 => {
                "parameters stored in BF16, or F16 where there is none, with F32 master weights"
            }
        }
    }
}

impl ValueEnum for Precision {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.meaning()))
    }
}

/// What to do in a precision: a closure that is generic over the backend.
pub trait InPrecision<P: Kernels> {
    type Output;

    /// `B` trains on `P`; `loss_scale` is `None` where the loss is never scaled.
    fn call<B, R>(self, loss_scale: Option<LossScale>) -> Self::Output
    where
        B: AutodiffBackend<Device = P::Device>,
        R: Recipe<B>;
}

impl Precision {
    /// Calls `then` with the backend and the recipe of this precision, its policy in force.
    ///
    /// # Errors
    ///
    /// If the device cannot compute in the precision; `then` is not called.
    pub fn with<P: Kernels, T: InPrecision<P>>(
        self,
        device: &P::Device,
        then: T,
    ) -> Result<T::Output, SetupError> {
        match self {
            Self::F32 => Ok(then.call::<Autodiff<P>, StoredInF32>(None)),
            Self::AmpBf16 => mixed::<P, Bf16, StoredInF32, T>(device, Bf16::config()?, then),
            Self::AmpF16 => mixed::<P, F16, StoredInF32, T>(device, F16::config()?, then),
            Self::AmpF16Static128 => {
                mixed::<P, F16Static128, StoredInF32, T>(device, F16Static128::config()?, then)
            }
            Self::AmpF16Unscaled => {
                mixed::<P, F16Unscaled, StoredInF32, T>(device, F16Unscaled::config()?, then)
            }
            Self::AmpDecomposed => {
                let config = in_bf16_or_f16::<P>(Decomposed::config()?, device);
                mixed::<P, Decomposed, StoredInF32, T>(device, config, then)
            }
            Self::O2 => {
                let config = in_bf16_or_f16::<P>(O2::config()?, device);
                mixed::<P, O2, MastersInF32, T>(device, config, then)
            }
        }
    }
}

/// The configuration with the better of the low dtypes that the device has.
fn in_bf16_or_f16<P: Kernels>(config: Config, device: &P::Device) -> Config {
    Config {
        compute: match P::supports_dtype(device, DType::BF16) {
            true => Compute::Bf16,
            false => Compute::F16,
        },
        ..config
    }
}

fn mixed<P, S, R, T>(device: &P::Device, config: Config, then: T) -> Result<T::Output, SetupError>
where
    P: Kernels,
    S: PolicySource,
    R: Recipe<burn_amp::Autodiff<Amp<P, S>>>,
    T: InPrecision<P>,
{
    put_in_force::<burn_amp::Autodiff<Amp<P, S>>>(device, config)?;
    let loss_scale = burn_amp::loss_scale::<burn_amp::Autodiff<Amp<P, S>>>(device);
    Ok(then.call::<burn_amp::Autodiff<Amp<P, S>>, R>(Some(loss_scale)))
}

/// A policy is put in force once; a later run finds it there.
fn put_in_force<A: AmpBackend>(device: &A::Device, config: Config) -> Result<(), SetupError> {
    match burn_amp::configure::<A>(device, config) {
        Ok(_) | Err(SetupError::InForce { .. }) => Ok(()),
        Err(error @ (SetupError::Config(_) | SetupError::UnsupportedDtype { .. })) => Err(error),
    }
}

/// Declares the policy sources. A macro, because a policy source is a type.
macro_rules! policies {
    ($($Source:ident = $config:expr;)+) => {$(
        struct $Source;

        impl PolicySource for $Source {
            fn config() -> Result<Config, ConfigError> {
                Ok($config)
            }
        }
    )+};
}

policies! {
    Bf16 = computing_in(Compute::Bf16);
    F16 = f16(LossScaleMode::Dynamic, LossScaleConfig::default().init);
    F16Static128 = f16(LossScaleMode::Static, 128.0);
    F16Unscaled = f16(LossScaleMode::Off, LossScaleConfig::default().init);
    Decomposed = Config {
        ops: [Op::softmax, Op::layer_norm, Op::gelu].map(|op| (op, Class::Full)).into(),
        ..computing_in(Compute::Bf16)
    };
    O2 = Config { preset: Preset::O2, ..computing_in(Compute::Bf16) };
}

fn computing_in(compute: Compute) -> Config {
    Config {
        compute,
        ..Config::default()
    }
}

fn f16(mode: LossScaleMode, init: f32) -> Config {
    Config {
        loss_scale: LossScaleConfig {
            mode,
            init,
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
}
