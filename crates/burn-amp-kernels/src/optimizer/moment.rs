//! The moments of a parameter, in the format in which they are kept.

use burn_backend::{
    Backend, DType, FloatDType, IntDType, Shape, TensorData, TensorMetadata, read_sync,
    tensor::{Device, FloatTensor, IntTensor},
};

use super::rounding::{from_bf16, pack, unpack};

/// A moment of a parameter.
#[derive(Clone, Debug)]
pub enum Moment<B: Backend> {
    /// In the dtype in which a step computes, F32 or F64, in the shape of the parameter.
    Wide(FloatTensor<B>),
    /// In BF16, two numbers in each U32 word, the first in the lower half, in row-major order: `[elements / 2]`, rounded
    /// up. Each step [rounds](super::rounding) it stochastically.
    Bf16(IntTensor<B>),
}

/// The format of moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MomentFormat {
    /// 4 bytes per element; 8 for an F64 parameter.
    Wide,
    /// 2 bytes per element.
    Bf16,
}

impl<B: Backend> Moment<B> {
    /// Makes an undefined moment for a parameter of this shape.
    pub fn undefined(
        format: MomentFormat,
        shape: Shape,
        wide: FloatDType,
        device: &Device<B>,
    ) -> Self {
        match format {
            MomentFormat::Wide => Self::Wide(B::float_empty(shape, device, wide)),
            MomentFormat::Bf16 => {
                let words = Shape::new([shape.num_elements().div_ceil(2)]);
                Self::Bf16(B::int_empty(words, device, IntDType::U32))
            }
        }
    }

    /// Returns the format.
    pub fn format(&self) -> MomentFormat {
        match self {
            Self::Wide(_) => MomentFormat::Wide,
            Self::Bf16(_) => MomentFormat::Bf16,
        }
    }

    /// Moves the moment to a device, unless it is there.
    pub fn on_device(self, device: &Device<B>) -> Self {
        match self {
            Self::Wide(tensor) if B::float_device(&tensor) != *device => {
                Self::Wide(B::float_to_device(tensor, device))
            }
            Self::Bf16(words) if B::int_device(&words) != *device => {
                Self::Bf16(B::int_to_device(words, device))
            }
            here => here,
        }
    }

    /// Returns the moment of a parameter of this shape in a wide dtype. One in BF16 is read by the host.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver it.
    pub fn widened(self, shape: Shape, wide: DType) -> FloatTensor<B> {
        match self {
            Self::Wide(tensor) => crate::widen::cast::<B>(tensor, wide),
            Self::Bf16(words) => {
                let device = B::int_device(&words);
                let words =
                    read_sync(B::int_into_data(words)).expect("the device delivers moments");
                let values = unpack(words.iter::<u32>(), shape.num_elements());
                let values: Vec<f32> = values.into_iter().map(from_bf16).collect();
                let data = TensorData::new(values, shape).convert_dtype(wide);
                B::float_from_data(data, &device)
            }
        }
    }

    /// Keeps a wide moment in a format, rounded on the host by `round`, which gets the index and the value of an element.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver it.
    pub fn rounded(
        wide: FloatTensor<B>,
        format: MomentFormat,
        round: impl Fn(usize, f32) -> u16,
    ) -> Self {
        match format {
            MomentFormat::Wide => Self::Wide(wide),
            MomentFormat::Bf16 => {
                let device = B::float_device(&wide);
                let len = wide.shape().num_elements();
                let data =
                    read_sync(B::float_into_data(wide)).expect("the device delivers moments");
                let values = data.iter::<f32>().enumerate();
                let words = pack(values.map(|(at, value)| round(at, value)));
                let data = TensorData::new(words, [len.div_ceil(2)]);
                Self::Bf16(B::int_from_data(data, &device))
            }
        }
    }
}
