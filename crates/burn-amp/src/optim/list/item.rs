//! The state of a parameter in a file, where Burn has no form for it.

use burn::tensor::TensorData;
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{Moment, MomentFormat},
};
use burn_backend::{
    DType, Shape, read_sync,
    tensor::{Device, FloatTensor, IntTensor},
};
use serde::{Deserialize, Serialize};

use super::state::{ListMaster, ListState};

/// [`ListState`] in a file. Each tensor is stored in its own dtype, whatever the precision of the recorder. One whose
/// tensors do not fit its shape is refused.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ListItem {
    time: usize,
    master: ListMasterItem,
    moments: Vec<MomentItem>,
    shape: Vec<usize>,
}

/// A [`ListItem`] as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    time: usize,
    master: ListMasterItem,
    moments: Vec<MomentItem>,
    shape: Vec<usize>,
}

/// A tensor of a state that does not fit its format.
#[derive(Debug, thiserror::Error)]
#[error("the {what} of a parameter of shape {shape:?} has {found:?}, and not {expected:?}")]
struct Misfit {
    what: &'static str,
    shape: Vec<usize>,
    found: (DType, usize),
    expected: (DType, usize),
}

impl TryFrom<Unchecked> for ListItem {
    type Error = Misfit;

    fn try_from(unchecked: Unchecked) -> Result<Self, Misfit> {
        let Unchecked {
            time,
            master,
            moments,
            shape,
        } = unchecked;
        let elements = shape.iter().product();
        let check = |what, data: &TensorData, expected| {
            let found = (data.dtype, data.num_elements());
            let shape = shape.clone();
            let misfit = Misfit {
                what,
                shape,
                found,
                expected,
            };
            (found == expected).then_some(()).ok_or(misfit)
        };
        match &master {
            ListMasterItem::Parameter => {}
            ListMasterItem::F32(data) => check("F32 master", data, (DType::F32, elements))?,
            ListMasterItem::Offset(data) => check("split master", data, (DType::I16, elements))?,
        }
        for moment in &moments {
            let in_words = |format: MomentFormat| {
                let words = format.words(elements).unwrap_or(elements);
                (DType::U32, words)
            };
            match moment {
                MomentItem::Wide(data) if data.dtype == DType::F64 => {
                    check("F64 moment", data, (DType::F64, elements))?;
                }
                MomentItem::Wide(data) => check("F32 moment", data, (DType::F32, elements))?,
                MomentItem::Bf16(data) => {
                    check("BF16 moment", data, in_words(MomentFormat::Bf16))?;
                }
                MomentItem::Bits8(data) => {
                    check("8-bit moment", data, in_words(MomentFormat::Bits8))?;
                }
            }
        }
        Ok(Self {
            time,
            master,
            moments,
            shape,
        })
    }
}

#[derive(Clone, Serialize, Deserialize)]
enum MomentItem {
    /// In F32, or in F64 for a parameter in F64.
    Wide(TensorData),
    /// Two BF16 in each U32 word.
    Bf16(TensorData),
    /// Blocks of 8 bits in U32 words.
    Bits8(TensorData),
}

#[derive(Clone, Serialize, Deserialize)]
enum ListMasterItem {
    Parameter,
    F32(TensorData),
    Offset(TensorData),
}

impl ListItem {
    pub(super) fn of<B: AmpBackend>(state: ListState<B>) -> Self {
        let ListState {
            time,
            undecided: _,
            master,
            moments,
            shape,
        } = state;
        Self {
            shape: shape.as_slice().to_vec(),
            time,
            master: match master {
                ListMaster::Parameter => ListMasterItem::Parameter,
                ListMaster::F32(master) => ListMasterItem::F32(data::<B>(master)),
                ListMaster::Offset(offset) => ListMasterItem::Offset(int_data::<B>(offset)),
            },
            moments: moments.into_iter().map(MomentItem::of::<B>).collect(),
        }
    }

    pub(super) fn into_state<B: AmpBackend>(self, device: &Device<B>) -> ListState<B> {
        let Self {
            time,
            master,
            moments,
            shape,
        } = self;
        ListState {
            time,
            master: match master {
                ListMasterItem::Parameter => ListMaster::Parameter,
                ListMasterItem::F32(data) => ListMaster::F32(B::float_from_data(data, device)),
                ListMasterItem::Offset(data) => ListMaster::Offset(B::int_from_data(data, device)),
            },
            moments: moments
                .into_iter()
                .map(|moment| moment.into_moment(device))
                .collect(),
            ..ListState::new(Shape::from(shape))
        }
    }
}

impl MomentItem {
    fn of<B: AmpBackend>(moment: Moment<B>) -> Self {
        match moment {
            Moment::Wide(moment) => Self::Wide(data::<B>(moment)),
            Moment::Bf16(words) => Self::Bf16(int_data::<B>(words)),
            Moment::Bits8(words) => Self::Bits8(int_data::<B>(words)),
        }
    }

    fn into_moment<B: AmpBackend>(self, device: &Device<B>) -> Moment<B> {
        match self {
            Self::Wide(data) => Moment::Wide(B::float_from_data(data, device)),
            Self::Bf16(data) => Moment::Bf16(B::int_from_data(data, device)),
            Self::Bits8(data) => Moment::Bits8(B::int_from_data(data, device)),
        }
    }
}

/// Reads a tensor from the device.
///
/// # Panics
///
/// Panics if the device cannot deliver it, as Burn's records do.
fn data<B: AmpBackend>(tensor: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(tensor))
        .expect("the optimizer's state can be read from the device")
}

fn int_data<B: AmpBackend>(tensor: IntTensor<B>) -> TensorData {
    read_sync(B::int_into_data(tensor)).expect("the optimizer's state can be read from the device")
}
