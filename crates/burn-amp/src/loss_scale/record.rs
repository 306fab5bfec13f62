//! The loss scale in a checkpoint.

use burn::record::{PrecisionSettings, Record};
use burn_amp_core::LossScaleState;
use burn_backend::{Backend, DeviceId};
use serde::{Deserialize, Serialize};

/// The state of a loss scale, as a Burn record.
///
/// It holds numbers, not a tensor: a recorder with half-precision settings would turn 65536 into inf.
///
/// Loading a file that holds something else, or that a newer burn-amp wrote, is an error that names both versions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct LossScaleRecord {
    pub(crate) loss_scale: LossScaleState,
    pub(crate) steps: u64,
    pub(crate) skipped_steps: u64,
}

impl LossScaleRecord {
    /// The version that is written, and the newest that is read.
    const VERSION: u32 = 1;

    /// The factor on the next loss.
    pub fn scale(&self) -> f32 {
        self.loss_scale.scale
    }

    /// Finite steps since the scale last changed.
    pub fn growth_tracker(&self) -> u32 {
        self.loss_scale.streak
    }

    /// Scaled backward passes so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Backward passes whose gradients overflowed.
    pub fn skipped_steps(&self) -> u64 {
        self.skipped_steps
    }
}

impl<B: Backend> Record<B> for LossScaleRecord {
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
pub(crate) struct DeviceLossScale {
    pub(crate) device_type: u16,
    pub(crate) device_index: u32,
    pub(crate) loss_scale: LossScaleRecord,
}

impl DeviceLossScale {
    /// Whether this is the loss scale of `device`.
    pub(crate) fn is_of(&self, device: DeviceId) -> bool {
        (self.device_type, self.device_index) == (device.type_id, device.index_id.into())
    }
}

/// The fields in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    loss_scale_version: u32,
    scale: f32,
    growth_tracker: u32,
    hysteresis: u32,
    steps: u64,
    skipped_steps: u64,
}

/// Why stored fields are no loss scale.
#[derive(Debug, thiserror::Error)]
enum NoLossScale {
    #[error(
        "loss scale record of version {found}, but this burn-amp reads version {}: the file is from a newer burn-amp, or \
         holds something else",
        LossScaleRecord::VERSION
    )]
    Version { found: u32 },
    #[error(
        "loss scale record: {scale} is no loss scale; expected a power of two from 2^-126 to 2^127"
    )]
    Scale { scale: f32 },
}

impl From<LossScaleRecord> for Stored {
    fn from(record: LossScaleRecord) -> Self {
        let LossScaleRecord {
            loss_scale:
                LossScaleState {
                    scale,
                    streak,
                    hysteresis,
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
        }
    }
}

impl TryFrom<Stored> for LossScaleRecord {
    type Error = NoLossScale;

    fn try_from(stored: Stored) -> Result<Self, NoLossScale> {
        let Stored {
            loss_scale_version,
            scale,
            growth_tracker,
            hysteresis,
            steps,
            skipped_steps,
        } = stored;
        if loss_scale_version != Self::VERSION {
            return Err(NoLossScale::Version {
                found: loss_scale_version,
            });
        }
        let is_power_of_two = scale.is_normal() && scale > 0.0 && scale.to_bits() << 9 == 0;
        if !is_power_of_two {
            return Err(NoLossScale::Scale { scale });
        }
        Ok(Self {
            loss_scale: LossScaleState {
                scale,
                streak: growth_tracker,
                hysteresis,
            },
            steps,
            skipped_steps,
        })
    }
}
