//! The rules of a whole configuration.

use std::env;

use super::{
    Compute, Config, ConfigError, LossScaleMode, Preset, Saved, Source, keys::Key,
    sources::Sources, tree::Value,
};
use crate::{formats::Simulate, overflow::Locate};

/// Checks every value of a configuration, and the rules that concern several keys.
pub(super) fn config(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    Key::ALL.iter().try_for_each(|key| key.check(config))?;
    compute_of_preset(config, sources)?;
    nothing_low(config, sources)?;
    order_of_scales(config, sources)?;
    replay_without_step(config, sources)
}

/// `o0` computes in F32; `o2` and `o3` store parameters in a low compute dtype.
fn compute_of_preset(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    let Config {
        preset, compute, ..
    } = config;
    let allowed: &[Compute] = match preset {
        Preset::O0 => &[Compute::Auto, Compute::F32],
        Preset::O1 => &Compute::ALL,
        Preset::O2 | Preset::O3 => &[Compute::Auto, Compute::Bf16, Compute::F16],
    };
    if allowed.contains(compute) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|compute| compute.name()).collect();
    let place = sources.last("compute", "preset");
    // A configuration that was loaded and then changed in code does not know where its preset is from.
    let variable = Key::find("preset").map(Key::variable);
    let is_of_variable =
        |variable: &String| env::var(variable).is_ok_and(|set| set == preset.name());
    let from = variable
        .filter(|variable| place.source == Source::Code && is_of_variable(variable))
        .map_or_else(String::new, |variable| format!(" (from {variable})"));
    Err(ConfigError::unexpected(
        place,
        format!("compute {} with preset {preset}{from}", names.join(" or ")),
        format!("compute {compute}"),
    ))
}

/// A recipe is simulated for the products that run in low precision, and what is saved in eight bits is what ops read in low
/// precision.
fn nothing_low(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    let Config {
        preset,
        compute,
        simulate,
        saved,
        ..
    } = config;
    let (key, allowed, found) = match (preset, compute) {
        (Preset::O0, _) => ("preset", "o1 or o2 or o3", preset.name()),
        (_, Compute::F32) => ("compute", "auto or bf16 or f16", compute.name()),
        _ => return Ok(()),
    };
    let (with, value) = match (simulate, saved) {
        (Simulate::Off, Saved::Whole) => return Ok(()),
        (Simulate::Off, _) => ("saved", saved.name()),
        (_, _) => ("simulate", simulate.name()),
    };
    Err(ConfigError::unexpected(
        sources.last(with, key),
        format!("{key} {allowed} with {with} {value}"),
        format!("{key} {found}"),
    ))
}

/// A scale that moves starts between its limits.
fn order_of_scales(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    let rule = &config.loss_scale.rule;
    let (min, init, max) = (rule.min, rule.init, rule.max);
    let beyond = match config.loss_scale.mode {
        LossScaleMode::Static | LossScaleMode::Check | LossScaleMode::Off => return Ok(()),
        LossScaleMode::Auto | LossScaleMode::Dynamic if init < min => "loss_scale.min",
        LossScaleMode::Auto | LossScaleMode::Dynamic if init > max => "loss_scale.max",
        LossScaleMode::Auto | LossScaleMode::Dynamic => return Ok(()),
    };
    let [min, init, max] = [min, init, max].map(|scale| Value::Float(scale.into()));
    Err(ConfigError::unexpected(
        sources.last("loss_scale.init", beyond),
        "loss_scale.min <= loss_scale.init <= loss_scale.max",
        format!("{min} <= {init} <= {max}"),
    ))
}

/// A step is written to a file if it is chosen by its number, or searched for an overflow.
fn replay_without_step(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    let (replay, locate) = (&config.replay, config.overflow.locate);
    if replay.output.is_empty() && replay.step > 0 {
        return Err(ConfigError::unexpected(
            sources.last("replay.step", "replay.output"),
            "replay.output with replay.step",
            "no replay.output",
        ));
    }
    if replay.output.is_empty() || replay.step > 0 || locate != Locate::Off {
        return Ok(());
    }
    Err(ConfigError::unexpected(
        sources.last("replay.output", "overflow.locate"),
        "replay.step of 1 or more, or overflow.locate on_skip or always, with replay.output",
        "replay.step 0 and overflow.locate off",
    ))
}
