//! The state of [`MasterWeights`](super::MasterWeights): the masters, and their form in a file.

use burn::{
    record::{PrecisionSettings, Record},
    tensor::{DType, Int, Tensor, TensorData, backend::Backend},
};
use burn_amp_kernels::optimizer::Master;
use serde::{Deserialize, Serialize};

/// The state of [`MasterWeights`](super::MasterWeights) for one parameter: the master, and the inner optimizer's state
/// `S`.
#[derive(Clone, Debug)]
pub struct MasterState<B: Backend, const D: usize, S> {
    pub(super) master: Master<Tensor<B, D>, Tensor<B, D, Int>>,
    pub(super) inner: Option<S>,
}

/// [`MasterState`] in a file.
///
/// Masters are stored in their own dtype whatever the precision of the recorder: rounded to half precision they would
/// be useless.
#[derive(Clone, Serialize, Deserialize)]
pub struct MasterStateItem<S> {
    master: Master<TensorData>,
    inner: Option<S>,
}

impl<B: Backend, const D: usize, R: Record<B>> Record<B> for MasterState<B, D, R> {
    type Item<S: PrecisionSettings> = MasterStateItem<R::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        MasterStateItem {
            master: self.master.map(Tensor::into_data, Tensor::into_data),
            inner: self.inner.map(Record::into_item),
        }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            master: item.master.map(
                |data| Tensor::from_data(data, (device, DType::F32)),
                |data| Tensor::from_data(data, (device, DType::I16)),
            ),
            inner: item.inner.map(|inner| Record::from_item(inner, device)),
        }
    }
}
