//! The record of an optimizer together with the loss scales.

use burn::{
    record::{PrecisionSettings, Record},
    tensor::{
        Element,
        backend::{Backend, DeviceOps},
    },
};
use serde::Serialize;

use super::foreign::name_of;
use burn_amp_decorator::{LossScaleRecord, internal::DeviceLossScale, precision, warn};

/// The record of [`LossScaleOptimizer`](super::LossScaleOptimizer): the loss scales of all devices, and the wrapped
/// optimizer's record.
///
/// A file also has the name of the wrapped optimizer, so that loading it into another one says which it was. A file
/// without the name is read all the same, unless its format does not name the fields (`BinFileRecorder`).
#[derive(Clone, Debug)]
pub struct LossScaleOptimizerRecord<R> {
    pub(super) loss_scales: Vec<DeviceLossScale>,
    pub(super) optimizer: R,
}

impl<R> LossScaleOptimizerRecord<R> {
    /// Returns the loss scale of `device`; `None` if none was saved for it.
    pub fn loss_scale(&self, device: &impl DeviceOps) -> Option<LossScaleRecord> {
        let id = device.id();
        let of_device = self.loss_scales.iter().find(|state| state.is_of(id))?;
        Some(of_device.loss_scale)
    }
}

/// [`LossScaleOptimizerRecord`] in a file.
#[derive(Clone, Serialize)]
pub struct LossScaleOptimizerItem<I> {
    pub(super) loss_scales: Vec<DeviceLossScale>,
    /// The name of the wrapped optimizer, for the error of loading the record into another.
    pub(super) optimizer_name: String,
    pub(super) optimizer: I,
}

impl<B: Backend, R: Record<B>> Record<B> for LossScaleOptimizerRecord<R> {
    type Item<S: PrecisionSettings> = LossScaleOptimizerItem<R::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        warn::of_recorder(precision::from_burn(S::FloatElem::dtype()));
        LossScaleOptimizerItem {
            loss_scales: self.loss_scales,
            optimizer_name: name_of::<R::Item<S>>(),
            optimizer: self.optimizer.into_item(),
        }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            loss_scales: item.loss_scales,
            optimizer: Record::from_item(item.optimizer, device),
        }
    }
}
