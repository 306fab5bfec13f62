//! The `[loss_scale]` table.

use super::LossScaleMode;
use crate::{Dtype, DynamicLossScale, LossScaling};

/// How the loss is scaled; the numbers are those of [`DynamicLossScale`], and so are their defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleConfig {
    /// Whether the loss is scaled, and whether the scale moves.
    pub mode: LossScaleMode,
    /// The first scale, and the only one when the mode is `static`.
    pub init: f32,
    /// The scale is multiplied by this after `growth_interval` finite steps in a row.
    pub growth_factor: f32,
    /// The scale is multiplied by this after an overflow.
    pub backoff_factor: f32,
    /// Finite steps in a row until the scale grows.
    pub growth_interval: u32,
    /// Overflows in a row until the scale backs off.
    pub hysteresis: u32,
    /// The smallest scale.
    pub min: f32,
    /// The largest scale.
    pub max: f32,
    /// Whether the host waits for the finite check of every backward pass.
    ///
    /// Without it the scale moves on the device, the counters arrive late, and the optimizer must be one that selects on the
    /// device whether it stepped.
    pub sync: bool,
}

impl Default for LossScaleConfig {
    fn default() -> Self {
        let DynamicLossScale {
            init,
            growth_factor,
            backoff_factor,
            growth_interval,
            hysteresis,
            min,
            max,
        } = DynamicLossScale::default();
        Self {
            mode: LossScaleMode::Auto,
            init,
            growth_factor,
            backoff_factor,
            growth_interval,
            hysteresis,
            min,
            max,
            sync: true,
        }
    }
}

impl LossScaleConfig {
    /// The loss scaling for a compute dtype.
    ///
    /// `auto` scales for F16 only: the other dtypes have the range of F32, so that no gradient underflows in them
    /// that would not in F32.
    pub fn scaling(&self, compute: Dtype) -> LossScaling {
        match self.mode {
            LossScaleMode::Off => LossScaling::NoScale,
            LossScaleMode::Static => LossScaling::Static(self.init),
            LossScaleMode::Dynamic => LossScaling::Dynamic(self.dynamic()),
            LossScaleMode::Auto => match compute {
                Dtype::F16 => LossScaling::Dynamic(self.dynamic()),
                Dtype::F64 | Dtype::F32 | Dtype::Flex32 | Dtype::BF16 => LossScaling::NoScale,
            },
        }
    }

    fn dynamic(&self) -> DynamicLossScale {
        let Self {
            mode: _, // `scaling` has read it
            init,
            growth_factor,
            backoff_factor,
            growth_interval,
            hysteresis,
            min,
            max,
            sync: _, // how it is moved, not where to
        } = *self;
        DynamicLossScale {
            init,
            growth_factor,
            backoff_factor,
            growth_interval,
            hysteresis,
            min,
            max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_scales_for_f16_only() {
        let config = LossScaleConfig::default();
        for dtype in Dtype::ALL {
            let expected = match dtype {
                Dtype::F16 => LossScaling::Dynamic(DynamicLossScale::default()),
                Dtype::F64 | Dtype::F32 | Dtype::Flex32 | Dtype::BF16 => LossScaling::NoScale,
            };
            assert_eq!(config.scaling(dtype), expected, "{dtype}");
        }
    }

    #[test]
    fn the_other_modes_do_not_ask_for_the_dtype() {
        let dynamic = DynamicLossScale {
            init: 4.0,
            growth_factor: 4.0,
            backoff_factor: 0.25,
            growth_interval: 7,
            hysteresis: 3,
            min: 2.0,
            max: 8.0,
        };
        let config = |mode| LossScaleConfig {
            mode,
            init: 4.0,
            growth_factor: 4.0,
            backoff_factor: 0.25,
            growth_interval: 7,
            hysteresis: 3,
            min: 2.0,
            max: 8.0,
            sync: true,
        };
        for dtype in Dtype::ALL {
            let scaling = |mode| config(mode).scaling(dtype);
            assert_eq!(scaling(LossScaleMode::Off), LossScaling::NoScale);
            assert_eq!(scaling(LossScaleMode::Static), LossScaling::Static(4.0));
            assert_eq!(
                scaling(LossScaleMode::Dynamic),
                LossScaling::Dynamic(dynamic)
            );
        }
    }
}
