//! The precisions of a dry run.

use burn_amp::config::{Compute, Config, Preset};
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// A policy that lowers nothing, which has the bits of plain Burn
    F32,
    /// In BF16
    Bf16,
    /// In F16, with a dynamic loss scale
    F16,
}

impl Precision {
    /// The configuration of the policy.
    pub fn config(self) -> Config {
        let (preset, compute) = match self {
            Precision::F32 => (Preset::O0, Compute::F32),
            Precision::Bf16 => (Preset::O1, Compute::Bf16),
            Precision::F16 => (Preset::O1, Compute::F16),
        };
        Config {
            preset,
            compute,
            ..Config::default()
        }
    }
}
