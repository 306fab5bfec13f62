#![allow(missing_docs)]
use burn_amp_core::*;
use std::collections::BTreeMap;
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    O0,
    O1,
    O2,
    O3,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compute {
    Auto,
    Bf16,
    F16,
    F32,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScaleMode {
    Auto,
    Dynamic,
    Static,
    Off,
}
#[derive(Clone, Debug, PartialEq)]
pub struct LossScaleConfig {
    pub mode: LossScaleMode,
}
impl Default for LossScaleConfig {
    fn default() -> Self {
        Self {
            mode: LossScaleMode::Auto,
        }
    }
}
impl LossScaleConfig {
    pub fn scaling(&self, c: Dtype) -> LossScaling {
        match c {
            Dtype::F16 => LossScaling::Dynamic(Default::default()),
            _ => LossScaling::NoScale,
        }
    }
}
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub preset: Preset,
    pub compute: Compute,
    pub ops: BTreeMap<Op, Class>,
    pub loss_scale: LossScaleConfig,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            preset: Preset::O1,
            compute: Compute::Auto,
            ops: Default::default(),
            loss_scale: LossScaleConfig {
                mode: LossScaleMode::Auto,
            },
        }
    }
}
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ConfigError;
impl Config {
    pub fn load() -> Result<Self, ConfigError> {
        Ok(Self::default())
    }
    pub fn validate(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}
