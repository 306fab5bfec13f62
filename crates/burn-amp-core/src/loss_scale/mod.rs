//! Loss scaling as a pure function from one state to the next.
//!
//! ```text
//! overflowed:  hysteresis -= 1;  if hysteresis <= 0 { scale = max(scale * backoff, min) };  streak = 0
//! finite:      streak += 1;  if streak == interval { scale = min(scale * growth, max) if that is finite;  streak = 0 }
//!              hysteresis = its configured value
//! ```
//!
//! This is PyTorch's rule (`_amp_update_scale_`) with a floor, a cap and the hysteresis of Apex
//! (`update_scale_hysteresis`). With hysteresis 1, floor 0 and no cap it is exactly PyTorch's. A scale that was set below
//! the floor or above the cap stays where it is when the rule would move it the wrong way.
//!
//! A run begins with a *search* for its scale, unless [`search`](DynamicLossScale::search) is off:
//!
//! ```text
//! start:       scale = max(init / 2^12, min)
//! finite:      if scale < init { scale = 2 * scale }  else { the search is over }
//! overflowed:  before any finite pass { scale = max(scale / 2^16, min) }  else { scale = scale / 2;  the search is over }
//! ```
//!
//! So the search ends at the largest scale up to `init` at which the gradients are finite. It skips no step if that is
//! `init`, one if it is at least `init / 2^12`, two if it is at least `init / 2^28`, and three below that. Descending from
//! `init`, as PyTorch does, skips one step for each halving.

mod dynamic;

pub use dynamic::DynamicLossScale;

use serde::{Deserialize, Serialize};

/// Whether the gradients of one backward pass were all finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every element of every leaf gradient was finite.
    Finite,
    /// Some element was inf or NaN.
    Overflowed,
}

impl Outcome {
    /// The outcome of a backward pass, given whether any gradient had an element that is inf or NaN.
    pub const fn of(found_inf: bool) -> Self {
        if found_inf {
            Self::Overflowed
        } else {
            Self::Finite
        }
    }
}

/// How the loss is scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScaling {
    /// The loss is not scaled and gradients are not checked.
    NoScale,
    /// The loss is scaled by a constant; an overflowed step is skipped.
    Static(f32),
    /// The scale grows after finite steps and backs off after an overflow.
    Dynamic(DynamicLossScale),
}

/// The loss scale and the counters that decide when it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleState {
    /// The factor on the loss.
    pub scale: f32,
    /// Finite steps since the scale last changed (PyTorch's growth tracker); 0 during the search.
    pub streak: u32,
    /// Overflows left before the scale backs off, counted down from the configured hysteresis. The search does not use it.
    pub hysteresis: u32,
    /// The stage of the search for the first scale.
    pub search: Search,
}

/// The stage of the search for the first scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// The search is over, or there was none: the scale follows PyTorch's rule.
    #[default]
    Over,
    /// No pass has been finite yet: an overflow takes the scale far down.
    Down,
    /// Some pass was finite: the scale doubles until the first overflow.
    Up,
}

impl LossScaling {
    /// The state before the first step.
    pub fn start(&self) -> LossScaleState {
        let scale = match self {
            Self::NoScale => 1.0,
            Self::Static(scale) => *scale,
            Self::Dynamic(dynamic) => return dynamic.start(),
        };
        LossScaleState {
            scale,
            streak: 0,
            hysteresis: 1,
            search: Search::Over,
        }
    }

    /// The state to continue with after loading `saved`, which may come from a different configuration.
    ///
    /// A static scale is the configured one. A dynamic scale is clamped to `min` and `max`, and a search goes on only if
    /// this configuration searches, too.
    pub fn resume(&self, saved: LossScaleState) -> LossScaleState {
        match self {
            Self::NoScale => self.start(),
            Self::Static(_) => LossScaleState {
                streak: saved.streak,
                ..self.start()
            },
            Self::Dynamic(dynamic) => LossScaleState {
                scale: saved.scale.min(dynamic.max).max(dynamic.min),
                streak: saved.streak.min(dynamic.growth_interval.saturating_sub(1)),
                hysteresis: saved.hysteresis.min(dynamic.hysteresis),
                search: if dynamic.search {
                    saved.search
                } else {
                    Search::Over
                },
            },
        }
    }

    /// The state of the next step.
    pub fn next(&self, now: LossScaleState, outcome: Outcome) -> LossScaleState {
        match self {
            Self::NoScale => now,
            Self::Static(_) => LossScaleState {
                streak: match outcome {
                    Outcome::Finite => now.streak.saturating_add(1),
                    Outcome::Overflowed => 0,
                },
                ..now
            },
            Self::Dynamic(dynamic) => dynamic.next(now, outcome),
        }
    }
}

#[cfg(test)]
mod tests;
