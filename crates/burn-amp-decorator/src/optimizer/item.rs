//! The state of a parameter in a file, where Burn has no form for it.

use burn_amp_kernels::{
    AmpBackend,
    names::dtype_of,
    optimizer::{Master, Moment},
};
use burn_backend::{
    DType, Shape, TensorData, read_sync,
    tensor::{Device, FloatTensor, IntTensor},
};
use serde::{Deserialize, Serialize};

use super::state::ListState;

/// [`ListState`] in a file. Each tensor is stored in its own dtype, whatever the precision of the recorder.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListItem {
    /// The number of steps.
    pub time: usize,
    /// The master.
    pub master: Master<TensorData>,
    /// The moments, as many as the rule has.
    pub moments: Vec<Moment<TensorData>>,
    /// The shape of the parameter.
    pub shape: Vec<usize>,
}

/// A tensor of a state does not fit its format.
#[derive(Debug, thiserror::Error)]
#[error("the {what} of a parameter of shape {shape:?} has {found:?}, and not {expected:?}")]
pub struct Misfit {
    what: &'static str,
    shape: Vec<usize>,
    found: (DType, usize),
    expected: (DType, usize),
}

impl ListItem {
    /// Reads a state from the device.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver it, as Burn's records do.
    pub fn of<B: AmpBackend>(state: ListState<B>) -> Self {
        let ListState {
            time,
            undecided: _,
            master,
            moments,
            shape,
        } = state;
        let moments = moments.into_iter();
        Self {
            time,
            master: master.map(data::<B>, int_data::<B>),
            moments: moments
                .map(|moment| moment.map(data::<B>, int_data::<B>))
                .collect(),
            shape: shape.as_slice().to_vec(),
        }
    }

    /// Brings a state to a device.
    pub fn into_state<B: AmpBackend>(self, device: &Device<B>) -> ListState<B> {
        let Self {
            time,
            master,
            moments,
            shape,
        } = self;
        let float = |data| B::float_from_data(data, device);
        let int = |data| B::int_from_data(data, device);
        let moments = moments.into_iter();
        ListState {
            time,
            master: master.map(float, int),
            moments: moments.map(|moment| moment.map(float, int)).collect(),
            ..ListState::new(Shape::from(shape))
        }
    }

    /// Checks that the tensors fit the shape.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        let elements = self.shape.iter().product();
        let check = |what, data: &TensorData, expected| {
            let found = (dtype_of(data), data.num_elements());
            let misfit = || Misfit {
                what,
                shape: self.shape.clone(),
                found,
                expected,
            };
            (found == expected).then_some(()).ok_or_else(misfit)
        };
        match &self.master {
            Master::Parameter => {}
            Master::F32(data) => check("F32 master", data, (DType::F32, elements))?,
            Master::Offset(data) if dtype_of(data) == DType::I8 => {
                check("master in 24 bits", data, (DType::I8, elements))?;
            }
            Master::Offset(data) => check("split master", data, (DType::I16, elements))?,
        }
        for moment in &self.moments {
            let words = moment.format().words(elements).unwrap_or(elements);
            match moment {
                Moment::Wide(data) if dtype_of(data) == DType::F64 => {
                    check("F64 moment", data, (DType::F64, elements))?;
                }
                Moment::Wide(data) => check("F32 moment", data, (DType::F32, elements))?,
                Moment::Bf16(data) => check("BF16 moment", data, (DType::U32, words))?,
                Moment::Bits8(data) => check("8-bit moment", data, (DType::U32, words))?,
            }
        }
        Ok(())
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
