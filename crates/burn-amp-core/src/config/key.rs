//! Every key: its path in the file and its variable.

use crate::Op;

/// The keys and tables at the top of a file.
pub(super) const ROOT: &[&str] = &["preset", "compute", "ops", "loss_scale"];

/// The keys of `[loss_scale]`, in the order of [`Key::LOSS_SCALE`].
pub(super) const LOSS_SCALE: &[&str] = &[
    "mode",
    "init",
    "growth_factor",
    "backoff_factor",
    "growth_interval",
    "hysteresis",
    "min",
    "max",
    "sync",
];

/// What every variable begins with.
pub(super) const PREFIX: &str = "BURN_AMP_";

/// The variable that names the file.
pub(super) const FILE_VARIABLE: &str = "BURN_AMP_CONFIG";

/// The variable with overrides: `float_exp=full,softmax=keep`.
pub(super) const OPS_VARIABLE: &str = "BURN_AMP_OPS";

/// A key that holds one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Preset,
    Compute,
    Op(Op),
    Mode,
    Init,
    GrowthFactor,
    BackoffFactor,
    GrowthInterval,
    Hysteresis,
    Min,
    Max,
    Sync,
}

impl Key {
    /// The keys of `[loss_scale]`, in the order of [`LOSS_SCALE`].
    pub(super) const LOSS_SCALE: [Self; 9] = [
        Self::Mode,
        Self::Init,
        Self::GrowthFactor,
        Self::BackoffFactor,
        Self::GrowthInterval,
        Self::Hysteresis,
        Self::Min,
        Self::Max,
        Self::Sync,
    ];

    /// The path in the file, for example `loss_scale.init`.
    pub(super) fn path(self) -> String {
        let of_loss_scale = |name| format!("loss_scale.{name}");
        match self {
            Self::Preset => "preset".into(),
            Self::Compute => "compute".into(),
            Self::Op(op) => format!("ops.{op}"),
            Self::Mode => of_loss_scale("mode"),
            Self::Init => of_loss_scale("init"),
            Self::GrowthFactor => of_loss_scale("growth_factor"),
            Self::BackoffFactor => of_loss_scale("backoff_factor"),
            Self::GrowthInterval => of_loss_scale("growth_interval"),
            Self::Hysteresis => of_loss_scale("hysteresis"),
            Self::Min => of_loss_scale("min"),
            Self::Max => of_loss_scale("max"),
            Self::Sync => of_loss_scale("sync"),
        }
    }

    /// The variable, for example `BURN_AMP_LOSS_SCALE_INIT`; ops share [`OPS_VARIABLE`].
    pub(super) fn variable(self) -> String {
        match self {
            Self::Op(_) => OPS_VARIABLE.into(),
            Self::Preset
            | Self::Compute
            | Self::Mode
            | Self::Init
            | Self::GrowthFactor
            | Self::BackoffFactor
            | Self::GrowthInterval
            | Self::Hysteresis
            | Self::Min
            | Self::Max
            | Self::Sync => PREFIX.to_owned() + &self.path().to_uppercase().replace('.', "_"),
        }
    }

    /// The keys that have a variable of their own.
    pub(super) fn with_variable() -> impl Iterator<Item = Self> {
        [Self::Preset, Self::Compute]
            .into_iter()
            .chain(Self::LOSS_SCALE)
    }
}

/// Every variable.
pub(super) fn variables() -> Vec<String> {
    let mut all: Vec<_> = Key::with_variable().map(Key::variable).collect();
    all.extend([FILE_VARIABLE.to_owned(), OPS_VARIABLE.to_owned()]);
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lists_of_loss_scale_keys_are_one() {
        for (key, name) in Key::LOSS_SCALE.into_iter().zip(LOSS_SCALE) {
            assert_eq!(key.path(), format!("loss_scale.{name}"));
        }
        assert_eq!(Key::LOSS_SCALE.len(), LOSS_SCALE.len());
    }

    #[test]
    fn every_key_has_its_variable() {
        assert_eq!(
            variables(),
            [
                "BURN_AMP_COMPUTE",
                "BURN_AMP_CONFIG",
                "BURN_AMP_LOSS_SCALE_BACKOFF_FACTOR",
                "BURN_AMP_LOSS_SCALE_GROWTH_FACTOR",
                "BURN_AMP_LOSS_SCALE_GROWTH_INTERVAL",
                "BURN_AMP_LOSS_SCALE_HYSTERESIS",
                "BURN_AMP_LOSS_SCALE_INIT",
                "BURN_AMP_LOSS_SCALE_MAX",
                "BURN_AMP_LOSS_SCALE_MIN",
                "BURN_AMP_LOSS_SCALE_MODE",
                "BURN_AMP_LOSS_SCALE_SYNC",
                "BURN_AMP_OPS",
                "BURN_AMP_PRESET",
            ]
        );
    }
}
