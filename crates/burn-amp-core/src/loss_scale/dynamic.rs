//! The rule by which a dynamic loss scale moves.

use super::{LossScaleState, LossScaling, Outcome, Search};

/// The rule by which a dynamic loss scale moves. The defaults are PyTorch's, with a search for the first scale, a floor,
/// and the cap of Apex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicLossScale {
    /// The first scale; with `search`, the scale at which the search ends at the latest.
    pub init: f32,
    /// Whether the first steps search for the scale from far below `init`, instead of descending from `init`.
    pub search: bool,
    /// The scale is multiplied by this after `growth_interval` finite steps in a row.
    pub growth_factor: f32,
    /// The scale is multiplied by this after an overflow.
    pub backoff_factor: f32,
    /// Finite steps in a row before the scale grows.
    pub growth_interval: u32,
    /// Overflows in a row before the scale backs off.
    pub hysteresis: u32,
    /// The smallest scale.
    ///
    /// The default, 2^-24, lets gradients of up to 2^40 pass through F16, whose largest number is just below 2^16. Losses
    /// that need a scale below 1 are common: sums over a batch, or squared errors of targets above 10^4. A floor is
    /// there because a loss that is not finite overflows at every scale: that has to be found out.
    pub min: f32,
    /// The largest scale.
    pub max: f32,
    /// Overflows in a row at the smallest scale after which training is given up. Overflows that the hysteresis tolerates
    /// do not count.
    pub patience: u32,
}

impl Default for DynamicLossScale {
    fn default() -> Self {
        Self {
            init: 65536.0,
            search: true,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            hysteresis: 1,
            min: 1.0 / 16_777_216.0, // 2^-24
            max: 16_777_216.0,       // 2^24, as in Apex
            patience: 20,
        }
    }
}

impl From<DynamicLossScale> for LossScaling {
    fn from(dynamic: DynamicLossScale) -> Self {
        Self::Dynamic(dynamic)
    }
}

impl DynamicLossScale {
    /// The factor by which a search starts below `init`: 2^-12.
    ///
    /// From the default `init` of 2^16 a search starts at 16 and is at `init` after 12 finite passes. At 16, F16 flushes
    /// gradients below 2^-28 to zero.
    pub const SEARCH_START: f32 = 1.0 / 4096.0;

    /// The factor by which the scale falls after an overflow before the first finite pass of a search: 2^-16.
    ///
    /// From 16 it falls to 2^-12, which lets gradients of up to 2^28 pass. That loses nothing: some gradient overflowed at
    /// 16, and those that F16 now flushes to zero are 2^24 times smaller.
    pub const SEARCH_FALL: f32 = 1.0 / 65536.0;

    pub(super) fn start(&self) -> LossScaleState {
        let lowest = (self.init * Self::SEARCH_START).max(self.min);
        let searches = self.search && lowest < self.init;
        LossScaleState {
            scale: if searches { lowest } else { self.init },
            streak: 0,
            hysteresis: self.hysteresis,
            search: if searches { Search::Down } else { Search::Over },
        }
    }

    pub(super) fn next(&self, now: LossScaleState, outcome: Outcome) -> LossScaleState {
        match (now.search, outcome) {
            (Search::Over, Outcome::Overflowed) => {
                let hysteresis = now.hysteresis.saturating_sub(1);
                LossScaleState {
                    scale: if hysteresis == 0 {
                        self.lowered(now.scale, self.backoff_factor)
                    } else {
                        now.scale
                    },
                    streak: 0,
                    hysteresis,
                    search: Search::Over,
                }
            }
            (Search::Over, Outcome::Finite) => {
                let streak = now.streak.saturating_add(1);
                let grows = streak >= self.growth_interval;
                let grown = (now.scale * self.growth_factor)
                    .min(self.max)
                    .max(now.scale);
                LossScaleState {
                    scale: if grows && grown.is_finite() {
                        grown
                    } else {
                        now.scale
                    },
                    streak: if grows { 0 } else { streak },
                    hysteresis: self.hysteresis,
                    search: Search::Over,
                }
            }
            (search, outcome) => self.search_on(now.scale, search, outcome),
        }
    }

    /// The state after one more pass of the search.
    fn search_on(&self, scale: f32, search: Search, outcome: Outcome) -> LossScaleState {
        let (scale, search) = match (outcome, search) {
            (Outcome::Finite, _) if scale < self.init => (scale * 2.0, Search::Up),
            (Outcome::Finite, _) => (scale, Search::Over),
            (Outcome::Overflowed, Search::Down) => {
                (self.lowered(scale, Self::SEARCH_FALL), Search::Down)
            }
            (Outcome::Overflowed, Search::Up | Search::Over) => {
                (self.lowered(scale, 0.5), Search::Over)
            }
        };
        LossScaleState {
            scale,
            streak: 0,
            hysteresis: self.hysteresis,
            search,
        }
    }

    /// A scale times a factor below 1, but not below the floor; a scale already below the floor is kept.
    fn lowered(&self, scale: f32, factor: f32) -> f32 {
        (scale * factor).max(self.min).min(scale)
    }

    /// Whether the scale is at its floor, so that it would not fall after one more overflow. An overflow that the
    /// hysteresis tolerates would not lower it anyway.
    pub fn is_exhausted(&self, now: LossScaleState) -> bool {
        let tolerates = now.search == Search::Over && now.hysteresis > 1;
        now.scale <= self.min && !tolerates
    }
}
