//! The state of [`MasterWeights`](super::MasterWeights): the masters, and their form in a file.

use burn::{
    record::{PrecisionSettings, Record},
    tensor::{DType, FloatDType, Int, Tensor, TensorData, backend::Backend},
};
use serde::{Deserialize, Serialize};

use super::split::join;

/// The state of [`MasterWeights`](super::MasterWeights) for one parameter: the master, and the inner optimizer's state
/// `S`.
#[derive(Clone, Debug)]
pub struct MasterState<B: Backend, const D: usize, S> {
    pub(super) master: Master<B, D>,
    pub(super) inner: Option<S>,
}

/// The F32 master of one parameter.
#[derive(Clone, Debug)]
pub(super) enum Master<B: Backend, const D: usize> {
    /// No separate master: the parameter is its own master, or masters are not kept.
    Parameter,
    /// A separate F32 tensor.
    F32(Tensor<B, D>),
    /// The I16 offset from a BF16 parameter to its master, see [`offset`](burn_amp_kernels::optimizer::offset).
    Offset(Tensor<B, D, Int>),
}

impl<B: Backend, const D: usize> Master<B, D> {
    /// Returns the master in F32.
    pub(super) fn weights(self, parameter: Tensor<B, D>) -> Tensor<B, D> {
        match self {
            Self::F32(master) => master,
            Self::Offset(offset) if parameter.dtype() == DType::BF16 => join(parameter, offset),
            // An offset means nothing without the BF16 parameter that it belongs to.
            Self::Offset(_) | Self::Parameter => parameter.cast(FloatDType::F32),
        }
    }

    pub(super) fn on_device(self, device: &B::Device) -> Self {
        match self {
            Self::Parameter => Self::Parameter,
            Self::F32(master) => Self::F32(master.to_device(device)),
            Self::Offset(offset) => Self::Offset(offset.to_device(device)),
        }
    }
}

/// [`MasterState`] in a file.
///
/// Masters are stored in their own dtype whatever the precision of the recorder: rounded to half precision they would
/// be useless.
#[derive(Clone, Serialize, Deserialize)]
pub struct MasterStateItem<S> {
    master: MasterItem,
    inner: Option<S>,
}

#[derive(Clone, Serialize, Deserialize)]
enum MasterItem {
    Parameter,
    F32(TensorData),
    Beside(TensorData),
}

impl<B: Backend, const D: usize, R: Record<B>> Record<B> for MasterState<B, D, R> {
    type Item<S: PrecisionSettings> = MasterStateItem<R::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        MasterStateItem {
            master: match self.master {
                Master::Parameter => MasterItem::Parameter,
                Master::F32(master) => MasterItem::F32(master.into_data()),
                Master::Offset(offset) => MasterItem::Beside(offset.into_data()),
            },
            inner: self.inner.map(Record::into_item),
        }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            master: match item.master {
                MasterItem::Parameter => Master::Parameter,
                MasterItem::F32(data) => Master::F32(Tensor::from_data(data, (device, DType::F32))),
                MasterItem::Beside(data) => {
                    Master::Offset(Tensor::from_data(data, (device, DType::I16)))
                }
            },
            inner: item.inner.map(|inner| Record::from_item(inner, device)),
        }
    }
}
