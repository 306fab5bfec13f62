//! Loss scaling as a pure function from one state to the next.
//!
//! ```text
//! overflowed:  hysteresis -= 1;  if hysteresis <= 0 { scale = max(scale * backoff, min) };  streak = 0
//! finite:      streak += 1;  if streak == interval { scale = min(scale * growth, max) if that is finite;  streak = 0 }
//!              hysteresis = its configured value
//! ```
//!
//! This is PyTorch's rule (`_amp_update_scale_`) with a floor, a cap and the hysteresis of Apex
//! (`update_scale_hysteresis`). With hysteresis 1, floor 0 and no cap it is exactly PyTorch's.

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

/// The rule by which a dynamic loss scale moves. The defaults are PyTorch's, with the floor and cap of Apex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicLossScale {
    /// The first scale.
    pub init: f32,
    /// The scale is multiplied by this after `growth_interval` finite steps in a row.
    pub growth_factor: f32,
    /// The scale is multiplied by this after an overflow.
    pub backoff_factor: f32,
    /// Finite steps in a row before the scale grows.
    pub growth_interval: u32,
    /// Overflows in a row before the scale backs off.
    pub hysteresis: u32,
    /// The smallest scale.
    pub min: f32,
    /// The largest scale.
    pub max: f32,
}

impl Default for DynamicLossScale {
    fn default() -> Self {
        Self {
            init: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            hysteresis: 1,
            min: 1.0,
            max: 16_777_216.0, // 2^24, as in Apex
        }
    }
}

/// The loss scale and the counters that decide when it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleState {
    /// The factor on the loss.
    pub scale: f32,
    /// Finite steps since the scale last changed (PyTorch's growth tracker).
    pub streak: u32,
    /// Overflows left before the scale backs off, counted down from the configured hysteresis.
    pub hysteresis: u32,
}

impl From<DynamicLossScale> for LossScaling {
    fn from(dynamic: DynamicLossScale) -> Self {
        Self::Dynamic(dynamic)
    }
}

impl LossScaling {
    /// The state before the first step.
    pub fn start(&self) -> LossScaleState {
        let (scale, hysteresis) = match self {
            Self::NoScale => (1.0, 1),
            Self::Static(scale) => (*scale, 1),
            Self::Dynamic(dynamic) => (dynamic.init, dynamic.hysteresis),
        };
        LossScaleState {
            scale,
            streak: 0,
            hysteresis,
        }
    }

    /// The state to continue with after loading `saved`, which may come from a different configuration.
    ///
    /// A static scale is the configured one. A dynamic scale is clamped to `min` and `max`.
    pub fn resume(&self, saved: LossScaleState) -> LossScaleState {
        match self {
            Self::NoScale => self.start(),
            Self::Static(_) => LossScaleState {
                streak: saved.streak,
                ..self.start()
            },
            Self::Dynamic(dynamic) => LossScaleState {
                scale: saved.scale.clamp(dynamic.min, dynamic.max),
                streak: saved.streak.min(dynamic.growth_interval - 1),
                hysteresis: saved.hysteresis.min(dynamic.hysteresis),
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

impl DynamicLossScale {
    fn next(&self, now: LossScaleState, outcome: Outcome) -> LossScaleState {
        match outcome {
            Outcome::Overflowed => {
                let hysteresis = now.hysteresis.saturating_sub(1);
                let scale = if hysteresis == 0 {
                    (now.scale * self.backoff_factor).max(self.min)
                } else {
                    now.scale
                };
                LossScaleState {
                    scale,
                    streak: 0,
                    hysteresis,
                }
            }
            Outcome::Finite => {
                let streak = now.streak + 1;
                let grows = streak >= self.growth_interval;
                let grown = (now.scale * self.growth_factor).min(self.max);
                LossScaleState {
                    scale: if grows && grown.is_finite() {
                        grown
                    } else {
                        now.scale
                    },
                    streak: if grows { 0 } else { streak },
                    hysteresis: self.hysteresis,
                }
            }
        }
    }

    /// Whether the scale is already at its minimum, so that it cannot fall after another overflow.
    pub fn is_at_min(&self, now: LossScaleState) -> bool {
        now.scale <= self.min
    }
}

#[cfg(test)]
mod tests;
