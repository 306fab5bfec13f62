//! The precisions that are compared, each with its backends.

use burn::{
    backend::{
        Autodiff, Flex, autodiff::checkpoint::strategy::BalancedCheckpointing, flex::FlexDevice,
    },
    tensor::backend::AutodiffBackend,
};
use burn_amp::{
    Amp,
    config::{Compute, Config, ConfigError, ConfigSource, DynamicLossScale, Saved},
};

use crate::counting::Counting;

/// The plain backend.
type Plain = Counting<Flex>;

/// A precision as types: the backend to train with, and the same under Burn's gradient checkpointing.
pub trait Precision {
    const NAME: &'static str;

    type Training: AutodiffBackend<Device = FlexDevice>;
    type Checkpointed: AutodiffBackend<Device = FlexDevice>;

    /// Runs `work` from the initial loss scale.
    fn scaled_afresh<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// Plain Burn.
pub struct F32;

/// The default configuration in BF16.
pub struct Bf16;

/// The default configuration in F16.
pub struct F16;

/// BF16, and eight bits of what the backward pass reads.
pub struct Bf16Saved8Bit;

impl Precision for F32 {
    const NAME: &'static str = "f32";

    type Training = Autodiff<Plain>;
    type Checkpointed = Autodiff<Plain, BalancedCheckpointing>;
}

impl Precision for Bf16 {
    const NAME: &'static str = "bf16";

    type Training = burn_amp::Autodiff<Amp<Plain, InBf16>>;
    type Checkpointed = burn_amp::Autodiff<Amp<Plain, InBf16>, BalancedCheckpointing>;
}

impl Precision for Bf16Saved8Bit {
    const NAME: &'static str = "bf16, saved in 8 bits";

    type Training = burn_amp::Autodiff<Amp<Plain, SavedIn8Bits>>;
    type Checkpointed = burn_amp::Autodiff<Amp<Plain, SavedIn8Bits>, BalancedCheckpointing>;
}

impl Precision for F16 {
    const NAME: &'static str = "f16";

    type Training = burn_amp::Autodiff<Amp<Plain, InF16>>;
    type Checkpointed = burn_amp::Autodiff<Amp<Plain, InF16>, BalancedCheckpointing>;

    fn scaled_afresh<T>(work: impl FnOnce() -> T) -> T {
        let scale = burn_amp::loss_scale::<Self::Training>(&FlexDevice);
        let initial = scale.record();
        let output = work();
        scale.load(initial);
        output
    }
}

/// Computes in BF16.
#[derive(Clone, Copy, Debug, Default)]
pub struct InBf16;

/// Computes in BF16 and keeps eight bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedIn8Bits;

/// Computes in F16, from PyTorch's first loss scale on: the search for the first scale starts where small gradients are zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct InF16;

impl ConfigSource for InBf16 {
    fn config() -> Result<Config, ConfigError> {
        Ok(computing_in(Compute::Bf16))
    }
}

impl ConfigSource for SavedIn8Bits {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            saved: Saved::EightBits,
            ..computing_in(Compute::Bf16)
        })
    }
}

impl ConfigSource for InF16 {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            loss_scale: DynamicLossScale {
                search: false,
                ..DynamicLossScale::default()
            }
            .into(),
            ..computing_in(Compute::F16)
        })
    }
}

fn computing_in(compute: Compute) -> Config {
    Config {
        compute,
        ..Config::default()
    }
}
