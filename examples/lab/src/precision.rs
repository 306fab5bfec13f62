//! The precisions that are measured and compared, as a table, and the policy of each.

use burn::{
    backend::Autodiff,
    tensor::{DType, backend::AutodiffBackend},
};
use burn_amp::{
    Amp, AmpBackend,
    config::{
        Class, Compute, Config, ConfigError, ConfigSource, DynamicLossScale, LossScaleConfig,
        LossScaleMode, Op, Preset, SetupError,
    },
    scaling::LossScale,
};
use clap::{ValueEnum, builder::PossibleValue};

use crate::{
    entry,
    recipe::{
        FewerBytes, MASTERS_IN_F32, MASTERS_IN_ONE_BYTE, MASTERS_IN_TWO_BYTES, MOMENTS_IN_8_BITS,
        MOMENTS_IN_BF16, MastersInF32, NO_MASTERS, Recipe, StoredInF32,
    },
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    #[default]
    F32,
    AmpBf16,
    AmpF16,
    AmpF16Static128,
    AmpF16Unscaled,
    AmpDecomposed,
    O2,
    O2Moments,
    O2Split,
    O2Stochastic,
    O2Moments8,
    O2Split8,
    O2Bits24,
    O2Stochastic8,
}

impl Precision {
    pub const ALL: [Self; 14] = [
        Self::F32,
        Self::AmpBf16,
        Self::AmpF16,
        Self::AmpF16Static128,
        Self::AmpF16Unscaled,
        Self::AmpDecomposed,
        Self::O2,
        Self::O2Moments,
        Self::O2Split,
        Self::O2Stochastic,
        Self::O2Moments8,
        Self::O2Split8,
        Self::O2Bits24,
        Self::O2Stochastic8,
    ];

    /// The precisions that `compare` trains in by default.
    pub const MAIN: [Self; 3] = [Self::F32, Self::AmpBf16, Self::AmpF16];

    /// The name, which the twins in PyTorch share.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub fn meaning(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::F32 => (entry::F32, "plain Burn"),
            Self::AmpBf16 => ("amp-bf16", "BF16"),
            Self::AmpF16 => ("amp-f16", "F16, with a dynamic loss scale"),
            Self::AmpF16Static128 => (
                "amp-f16-static-128",
                "F16, loss scale 128; overflowed steps are skipped",
            ),
            Self::AmpF16Unscaled => (
                "amp-f16-unscaled",
                "F16 without loss scale: shows what loss scaling costs",
            ),
            Self::AmpDecomposed => (
                "amp-decomposed",
                "BF16, or F16 where there is none, with Burn's softmax, layer norm and gelu: shows what the kernels gain",
            ),
            Self::O2 => (
                "o2",
                "parameters stored in BF16, or F16 where there is none, with F32 master weights",
            ),
            Self::O2Moments => (
                "o2-moments",
                "o2 with AdamW's moments in BF16: 12 bytes per parameter, and not 16",
            ),
            Self::O2Split => (
                "o2-split",
                "o2-moments with masters in 2 bytes where parameters are BF16: 10 bytes per parameter",
            ),
            Self::O2Stochastic => (
                "o2-stochastic",
                "o2-moments without masters where parameters are BF16: 8 bytes per parameter",
            ),
            Self::O2Moments8 => (
                "o2-moments-8",
                "o2 with AdamW's moments in blocks of 8 bits: 10 bytes per parameter",
            ),
            Self::O2Split8 => (
                "o2-split-8",
                "o2-moments-8 with masters in 2 bytes where parameters are BF16: 8 bytes per parameter",
            ),
            Self::O2Bits24 => (
                "o2-24-8",
                "o2-moments-8 with masters in 1 byte where parameters are BF16: 7 bytes per parameter",
            ),
            Self::O2Stochastic8 => (
                "o2-stochastic-8",
                "o2-moments-8 without masters where parameters are BF16: 6 bytes per parameter",
            ),
        }
    }
}

impl ValueEnum for Precision {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let value = PossibleValue::new(self.name()).help(self.meaning());
        Some(match self {
            Self::AmpBf16 => value.alias("bf16"),
            Self::AmpF16 => value.alias("f16"),
            _ => value,
        })
    }
}

/// Work in a precision: a closure that is generic over the backend and the recipe.
pub trait InPrecision<P: AmpBackend> {
    type Output;

    /// Does the work. `B` is the training backend over `P`; `loss_scale` is `None` in plain Burn.
    fn call<B, R>(self, loss_scale: Option<LossScale>) -> Self::Output
    where
        B: AutodiffBackend<Device = P::Device>,
        R: Recipe<B>;
}

impl Precision {
    /// Calls `then` with the backend and the recipe of this precision. Its policy is `base` with the precision's
    /// changes.
    ///
    /// The loss scale starts from its initial value in each call.
    ///
    /// # Errors
    ///
    /// Returns an error if the device cannot compute in the precision; `then` is not called.
    pub fn with<P: AmpBackend, T: InPrecision<P>>(
        self,
        device: &P::Device,
        base: &Config,
        then: T,
    ) -> Result<T::Output, SetupError> {
        use Precision::*;
        let config = self.config::<P>(base, device);
        match self {
            F32 => Ok(then.call::<Autodiff<P>, StoredInF32>(None)),
            AmpBf16 => mixed::<P, { AmpBf16 as u8 }, StoredInF32, T>(device, config, then),
            AmpF16 => mixed::<P, { AmpF16 as u8 }, StoredInF32, T>(device, config, then),
            AmpF16Static128 => {
                mixed::<P, { AmpF16Static128 as u8 }, StoredInF32, T>(device, config, then)
            }
            AmpF16Unscaled => {
                mixed::<P, { AmpF16Unscaled as u8 }, StoredInF32, T>(device, config, then)
            }
            AmpDecomposed => {
                mixed::<P, { AmpDecomposed as u8 }, StoredInF32, T>(device, config, then)
            }
            O2 => mixed::<P, { O2 as u8 }, MastersInF32, T>(device, config, then),
            O2Moments => {
                type R = FewerBytes<MASTERS_IN_F32, MOMENTS_IN_BF16>;
                mixed::<P, { O2Moments as u8 }, R, T>(device, config, then)
            }
            O2Split => {
                type R = FewerBytes<MASTERS_IN_TWO_BYTES, MOMENTS_IN_BF16>;
                mixed::<P, { O2Split as u8 }, R, T>(device, config, then)
            }
            O2Stochastic => {
                type R = FewerBytes<NO_MASTERS, MOMENTS_IN_BF16>;
                mixed::<P, { O2Stochastic as u8 }, R, T>(device, config, then)
            }
            O2Moments8 => {
                type R = FewerBytes<MASTERS_IN_F32, MOMENTS_IN_8_BITS>;
                mixed::<P, { O2Moments8 as u8 }, R, T>(device, config, then)
            }
            O2Split8 => {
                type R = FewerBytes<MASTERS_IN_TWO_BYTES, MOMENTS_IN_8_BITS>;
                mixed::<P, { O2Split8 as u8 }, R, T>(device, config, then)
            }
            O2Bits24 => {
                type R = FewerBytes<MASTERS_IN_ONE_BYTE, MOMENTS_IN_8_BITS>;
                mixed::<P, { O2Bits24 as u8 }, R, T>(device, config, then)
            }
            O2Stochastic8 => {
                type R = FewerBytes<NO_MASTERS, MOMENTS_IN_8_BITS>;
                mixed::<P, { O2Stochastic8 as u8 }, R, T>(device, config, then)
            }
        }
    }

    fn config<P: AmpBackend>(self, base: &Config, device: &P::Device) -> Config {
        let computing_in = |compute| Config {
            preset: Preset::O1,
            compute,
            ..base.clone()
        };
        let f16 = |mode, init| Config {
            loss_scale: LossScaleConfig {
                mode,
                rule: DynamicLossScale {
                    init,
                    ..base.loss_scale.rule
                },
                ..base.loss_scale
            },
            ..computing_in(Compute::F16)
        };
        let low = if P::supports_dtype(device, DType::BF16) {
            Compute::Bf16
        } else {
            Compute::F16
        };
        match self {
            Self::F32 => base.clone(),
            Self::AmpBf16 => computing_in(Compute::Bf16),
            Self::AmpF16 => computing_in(Compute::F16),
            Self::AmpF16Static128 => f16(LossScaleMode::Static, 128.0),
            Self::AmpF16Unscaled => f16(LossScaleMode::Off, base.loss_scale.rule.init),
            Self::AmpDecomposed => {
                let mut config = computing_in(low);
                let decomposed = [Op::softmax, Op::layer_norm, Op::gelu];
                config.ops.extend(decomposed.map(|op| (op, Class::Full)));
                config
            }
            Self::O2
            | Self::O2Moments
            | Self::O2Split
            | Self::O2Stochastic
            | Self::O2Moments8
            | Self::O2Split8
            | Self::O2Bits24
            | Self::O2Stochastic8 => Config {
                preset: Preset::O2,
                ..computing_in(low)
            },
        }
    }
}

/// The configuration source of the precision with this number. It is a type, because a policy belongs to a type.
struct Source<const PRECISION: u8>;

impl<const PRECISION: u8> ConfigSource for Source<PRECISION> {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config::default()) // replaced by `configure` before its first use
    }
}

fn mixed<P, const PRECISION: u8, R, T>(
    device: &P::Device,
    config: Config,
    then: T,
) -> Result<T::Output, SetupError>
where
    P: AmpBackend,
    R: Recipe<burn_amp::Autodiff<Amp<P, Source<PRECISION>>>>,
    T: InPrecision<P>,
{
    match burn_amp::configure::<Amp<P, Source<PRECISION>>>(device, config) {
        Ok(_) | Err(SetupError::InForce { .. }) => {} // a later run finds the policy in force
        Err(error) => return Err(error),
    }
    let scale = burn_amp::loss_scale::<burn_amp::Autodiff<Amp<P, Source<PRECISION>>>>(device);
    let _afresh = Afresh(scale);
    Ok(then.call::<burn_amp::Autodiff<Amp<P, Source<PRECISION>>>, R>(Some(scale)))
}

/// Resets the loss scale when it is dropped, even after a panic, because the loss scale outlives the run.
struct Afresh(LossScale);

impl Drop for Afresh {
    fn drop(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests;
