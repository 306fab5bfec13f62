//! The loss scale in a checkpoint.

use burn_amp_core::{LossScaleState, LossScaling, Outcome, Search};
use burn_backend::DeviceId;
#[cfg(not(burn_0_22))]
use burn_core::record::{PrecisionSettings, Record};
use serde::{Deserialize, Serialize};

/// The state of a loss scale, as a Burn record.
///
/// It holds numbers and no tensor, because a recorder with half-precision settings would turn 65536 into inf.
///
/// Loading a file that holds something else, or that a newer burn-amp wrote, is an error that names both versions.
/// Version 1 knew no search for the first scale; its records load as those of a search that is over, except from files
/// whose format does not name the fields (`BinFileRecorder`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredRecord", into = "StoredRecord")]
pub struct LossScaleRecord {
    #[doc(hidden)]
    pub loss_scale: LossScaleState,
    pub(crate) steps: u64,
    pub(crate) skipped_steps: u64,
}

impl LossScaleRecord {
    /// The version that is written, and the newest that is read.
    const VERSION: u32 = 2;

    /// Returns the state before the first step.
    #[doc(hidden)]
    pub fn start(scaling: &LossScaling) -> Self {
        Self {
            loss_scale: scaling.start(),
            steps: 0,
            skipped_steps: 0,
        }
    }

    /// Returns the state after one more step.
    #[doc(hidden)]
    pub fn next(self, scaling: &LossScaling, outcome: Outcome) -> Self {
        Self {
            loss_scale: scaling.next(self.loss_scale, outcome),
            steps: self.steps + 1,
            skipped_steps: self.skipped_steps + u64::from(outcome == Outcome::Overflowed),
        }
    }

    /// Adapts a saved state to a configuration that may differ from the one it was saved under.
    #[doc(hidden)]
    pub fn resumed(self, scaling: &LossScaling) -> Self {
        Self {
            loss_scale: scaling.resume(self.loss_scale),
            ..self
        }
    }

    /// Returns the factor on the next loss.
    pub fn scale(&self) -> f32 {
        self.loss_scale.scale
    }

    /// Returns the number of finite steps since the scale last changed; 0 while the first scale is searched for.
    pub fn growth_tracker(&self) -> u32 {
        self.loss_scale.streak
    }

    /// Returns the number of scaled backward passes so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the number of backward passes whose gradients overflowed.
    pub fn skipped_steps(&self) -> u64 {
        self.skipped_steps
    }
}

#[cfg(not(burn_0_22))]
impl<B: burn_backend::Backend> Record<B> for LossScaleRecord {
    type Item<S: PrecisionSettings> = Self;

    fn into_item<S: PrecisionSettings>(self) -> Self {
        self
    }

    fn from_item<S: PrecisionSettings>(item: Self, _: &B::Device) -> Self {
        item
    }
}

/// The loss scale of one device, in the record of an optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceLossScale {
    /// The type and the index of the device, as Burn has them.
    pub device_type: u16,
    /// See `device_type`.
    pub device_index: u32,
    /// The loss scale.
    pub loss_scale: LossScaleRecord,
}

impl DeviceLossScale {
    /// Whether this is the loss scale of `device`.
    pub fn is_of(&self, device: DeviceId) -> bool {
        (self.device_type, self.device_index) == (device.type_id, device.index_id.into())
    }
}

/// Whether a number is a valid loss scale: a power of two, so that scaling and unscaling are exact.
pub fn is_loss_scale(scale: f32) -> bool {
    const FRACTION: u32 = (1 << (f32::MANTISSA_DIGITS - 1)) - 1;
    scale.is_normal() && scale > 0.0 && scale.to_bits() & FRACTION == 0
}

/// Returns the valid loss scale nearest to a number; 1 for NaN.
pub fn nearest_loss_scale(number: f32) -> f32 {
    if number.is_nan() {
        return 1.0;
    }
    let number = number.clamp(f32::MIN_POSITIVE, 2f32.powi(127));
    let below = 2f32.powi(number.log2().floor() as i32);
    if number - below <= below / 2.0 {
        below
    } else {
        below * 2.0
    }
}

/// The fields of a [`LossScaleRecord`] in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRecord {
    loss_scale_version: u32,
    scale: f32,
    growth_tracker: u32,
    hysteresis: u32,
    steps: u64,
    skipped_steps: u64,
    #[serde(default)]
    search: Search,
}

/// The reason why the fields in a file are not a loss scale.
#[derive(Debug, thiserror::Error)]
enum NoLossScale {
    #[error(
        "loss scale record of version {found}, but this burn-amp reads versions 1 to {}: the file is from a newer \
         burn-amp, or holds something else",
        LossScaleRecord::VERSION
    )]
    Version { found: u32 },
    #[error(
        "loss scale record: {scale} is no loss scale; expected a power of two from 2^-126 to 2^127"
    )]
    Scale { scale: f32 },
}

impl From<LossScaleRecord> for StoredRecord {
    fn from(record: LossScaleRecord) -> Self {
        let LossScaleRecord {
            loss_scale:
                LossScaleState {
                    scale,
                    streak,
                    hysteresis,
                    search,
                },
            steps,
            skipped_steps,
        } = record;
        Self {
            loss_scale_version: LossScaleRecord::VERSION,
            scale,
            growth_tracker: streak,
            hysteresis,
            steps,
            skipped_steps,
            search,
        }
    }
}

impl TryFrom<StoredRecord> for LossScaleRecord {
    type Error = NoLossScale;

    fn try_from(stored: StoredRecord) -> Result<Self, NoLossScale> {
        let StoredRecord {
            loss_scale_version,
            scale,
            growth_tracker,
            hysteresis,
            steps,
            skipped_steps,
            search,
        } = stored;
        if !(1..=Self::VERSION).contains(&loss_scale_version) {
            return Err(NoLossScale::Version {
                found: loss_scale_version,
            });
        }
        if !is_loss_scale(scale) {
            return Err(NoLossScale::Scale { scale });
        }
        Ok(Self {
            loss_scale: LossScaleState {
                scale,
                streak: growth_tracker,
                hysteresis,
                search,
            },
            steps,
            skipped_steps,
        })
    }
}
