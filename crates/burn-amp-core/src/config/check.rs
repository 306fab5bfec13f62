//! What a whole configuration must hold.

use super::{
    Compute, Config, ConfigError, LossScaleConfig, LossScaleMode, Place, Preset,
    key::Key,
    number::{BACKOFF_FACTOR, GROWTH_FACTOR, SCALE, count, power_of_two},
    sources::Sources,
};
use crate::{Dtype, Op};

/// Checks a whole configuration.
pub(super) fn config(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    let Config {
        preset,
        compute,
        ops,
        loss_scale,
    } = config;
    preset_and_compute(*preset, *compute, sources)?;
    for op in ops.keys() {
        op_has_class(*op, || Place::new(sources.source(Key::Op(*op)), "ops"))?;
    }
    self::loss_scale(loss_scale, sources)
}

fn preset_and_compute(
    preset: Preset,
    compute: Compute,
    sources: &Sources,
) -> Result<(), ConfigError> {
    const WITH_O0: &[&str] = &[Compute::Auto.name(), Compute::F32.name()];
    const WITH_O2_AND_O3: &[&str] = &[
        Compute::Auto.name(),
        Compute::Bf16.name(),
        Compute::F16.name(),
    ];

    let allowed = match (preset, compute) {
        (Preset::O0, Compute::Auto | Compute::F32)
        | (Preset::O1, _)
        | (Preset::O2 | Preset::O3, Compute::Auto | Compute::Bf16 | Compute::F16) => return Ok(()),
        (Preset::O0, Compute::Bf16 | Compute::F16) => WITH_O0,
        (Preset::O2 | Preset::O3, Compute::F32) => WITH_O2_AND_O3,
    };
    Err(ConfigError::Contradiction {
        place: sources.last(Key::Compute, Key::Preset),
        preset,
        compute,
        allowed,
    })
}

/// Whether a class has a meaning for this op, under any compute dtype.
pub(super) fn takes_class(op: Op) -> bool {
    [Dtype::F16, Dtype::BF16]
        .into_iter()
        .any(|compute| op.class(compute).is_some())
}

/// Refuses an op that no class has a meaning for.
pub(super) fn op_has_class(op: Op, place: impl FnOnce() -> Box<Place>) -> Result<(), ConfigError> {
    match takes_class(op) {
        true => Ok(()),
        false => Err(ConfigError::NoClass { place: place(), op }),
    }
}

fn loss_scale(config: &LossScaleConfig, sources: &Sources) -> Result<(), ConfigError> {
    let LossScaleConfig {
        mode,
        init,
        growth_factor,
        backoff_factor,
        growth_interval,
        hysteresis,
        min,
        max,
        sync: _, // both values are right
    } = *config;
    for (key, x, powers) in [
        (Key::Init, init, SCALE),
        (Key::GrowthFactor, growth_factor, GROWTH_FACTOR),
        (Key::BackoffFactor, backoff_factor, BACKOFF_FACTOR),
        (Key::Min, min, SCALE),
        (Key::Max, max, SCALE),
    ] {
        power_of_two(f64::from(x), &powers, || sources.place(key))?;
    }
    for (key, n) in [
        (Key::GrowthInterval, growth_interval),
        (Key::Hysteresis, hysteresis),
    ] {
        count(n.into(), || sources.place(key))?;
    }
    match mode {
        LossScaleMode::Static | LossScaleMode::Off => Ok(()),
        LossScaleMode::Auto | LossScaleMode::Dynamic if min <= init && init <= max => Ok(()),
        LossScaleMode::Auto | LossScaleMode::Dynamic => Err(ConfigError::Disorder {
            place: match min <= init {
                true => sources.last(Key::Init, Key::Max),
                false => sources.last(Key::Init, Key::Min),
            },
            min,
            init,
            max,
        }),
    }
}
