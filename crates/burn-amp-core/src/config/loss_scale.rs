//! The `[loss_scale]` table.

use super::{Config, ConfigError, LossScaleMode};
use crate::{DynamicLossScale, LossScaling, Precision};

/// How the loss is scaled.
///
/// ```
/// use burn_amp_core::{Config, DynamicLossScale};
///
/// let rule = DynamicLossScale { init: 1024.0, ..Default::default() };
/// let config = Config { loss_scale: rule.into(), ..Default::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleConfig {
    /// Whether the loss is scaled, and whether the scale moves.
    pub mode: LossScaleMode,
    /// The first scale and how it moves; a static scale stays at `rule.init`.
    pub rule: DynamicLossScale,
    /// Whether the host waits for the finite check of every backward pass.
    ///
    /// If false, the scale is updated on the device, counters lag behind, and the optimizer must be one that decides on
    /// the device whether to step.
    pub sync: bool,
    /// The steps in a row that may overflow before training is given up, at whatever scale; 0 for no limit.
    ///
    /// [`DynamicLossScale::patience`] counts only those at the smallest scale, which a static scale does not have.
    pub max_skips: u32,
}

impl Default for LossScaleConfig {
    fn default() -> Self {
        Self {
            mode: LossScaleMode::default(),
            rule: DynamicLossScale::default(),
            sync: true,
            max_skips: 0,
        }
    }
}

impl From<DynamicLossScale> for LossScaleConfig {
    /// The defaults with another rule.
    fn from(rule: DynamicLossScale) -> Self {
        Self {
            rule,
            ..Self::default()
        }
    }
}

impl LossScaleConfig {
    /// The loss scaling for a compute dtype.
    ///
    /// `auto` scales for F16 only: the other dtypes have the exponent range of F32, so no gradient underflows in them
    /// that would not underflow in F32.
    pub fn scaling(&self, compute: Precision) -> LossScaling {
        match (self.mode, compute) {
            (LossScaleMode::Off, _) => LossScaling::NoScale,
            (LossScaleMode::Static, _) => LossScaling::Static(self.rule.init),
            (LossScaleMode::Check, _) => LossScaling::Static(1.0),
            (LossScaleMode::Dynamic, _) | (LossScaleMode::Auto, Precision::F16) => {
                LossScaling::Dynamic(self.rule)
            }
            (
                LossScaleMode::Auto,
                Precision::F64 | Precision::F32 | Precision::Flex32 | Precision::BF16,
            ) => LossScaling::NoScale,
        }
    }
}

impl LossScaling {
    /// Checks the numbers as they would be checked in a file.
    ///
    /// # Errors
    ///
    /// The first mistake, with `code` in place of a file.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (mode, rule) = match *self {
            Self::NoScale => return Ok(()),
            Self::Static(init) => (
                LossScaleMode::Static,
                DynamicLossScale {
                    init,
                    ..DynamicLossScale::default()
                },
            ),
            Self::Dynamic(rule) => (LossScaleMode::Dynamic, rule),
        };
        let loss_scale = LossScaleConfig {
            mode,
            ..rule.into()
        };
        Config {
            loss_scale,
            ..Config::default()
        }
        .validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_scales_for_f16_only() {
        let config = LossScaleConfig::default();
        for dtype in Precision::ALL {
            let expected = if dtype == Precision::F16 {
                LossScaling::Dynamic(config.rule)
            } else {
                LossScaling::NoScale
            };
            assert_eq!(config.scaling(dtype), expected, "{dtype}");
        }
    }

    #[test]
    fn the_other_modes_ignore_the_dtype() {
        let rule = DynamicLossScale {
            init: 4.0,
            ..DynamicLossScale::default()
        };
        for dtype in Precision::ALL {
            let scaling = |mode| {
                LossScaleConfig {
                    mode,
                    ..rule.into()
                }
                .scaling(dtype)
            };
            assert_eq!(scaling(LossScaleMode::Off), LossScaling::NoScale);
            assert_eq!(scaling(LossScaleMode::Static), LossScaling::Static(4.0));
            assert_eq!(scaling(LossScaleMode::Check), LossScaling::Static(1.0));
            assert_eq!(scaling(LossScaleMode::Dynamic), LossScaling::Dynamic(rule));
        }
    }

    #[test]
    fn a_loss_scaling_is_checked_like_a_file() {
        let rule = |growth_interval| {
            LossScaling::from(DynamicLossScale {
                growth_interval,
                ..DynamicLossScale::default()
            })
        };
        assert!(rule(1).validate().is_ok());
        assert!(LossScaling::NoScale.validate().is_ok());
        // The limits do not concern a static scale.
        assert!(LossScaling::Static(2f32.powi(100)).validate().is_ok());
        assert_eq!(
            rule(0).validate().unwrap_err().to_string(),
            "code: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found 0"
        );
        assert_eq!(
            LossScaling::Static(1000.0)
                .validate()
                .unwrap_err()
                .to_string(),
            "code: loss_scale.init: expected a power of two from 2^-126 to 2^127, found 1000; the nearest is 1024"
        );
    }
}
