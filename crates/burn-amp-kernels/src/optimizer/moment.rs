//! The moments of a parameter, in the format in which they are kept.

use burn_backend::{
    Backend, DType, FloatDType, IntDType, Shape, TensorData, TensorMetadata, read_sync,
    tensor::{Device, FloatTensor, IntTensor},
};
use serde::{Deserialize, Serialize};

use super::{
    blocks,
    place::Place,
    rounding::{self, Draw, from_bf16, to_bf16},
};
use crate::names::{device_of, int_device_of};

/// A moment of a parameter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Moment<F, I = F> {
    /// In the dtype in which a step computes, F32 or F64, in the shape of the parameter.
    Wide(F),
    /// In BF16, two numbers in each U32 word, the first in the lower half, in row-major order: `[elements / 2]`, rounded
    /// up. Each step [rounds](super::rounding) it stochastically.
    Bf16(I),
    /// In [blocks of 8 bits](super::blocks), as U32 words. Each step rounds it stochastically.
    Bits8(I),
}

/// The format of moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MomentFormat {
    /// 4 bytes per element; 8 for an F64 parameter.
    #[default]
    Wide,
    /// 2 bytes per element.
    Bf16,
    /// 1 byte per element, and 4 for each block of 128.
    Bits8,
}

impl MomentFormat {
    /// Returns the number of U32 words of a moment with `elements` elements; `None` if it is not kept in words.
    pub fn words(self, elements: usize) -> Option<usize> {
        match self {
            Self::Wide => None,
            Self::Bf16 => Some(elements.div_ceil(2)),
            Self::Bits8 => Some(blocks::words(elements)),
        }
    }
}

impl<F, I> Moment<F, I> {
    /// Returns the format.
    pub fn format(&self) -> MomentFormat {
        match self {
            Self::Wide(_) => MomentFormat::Wide,
            Self::Bf16(_) => MomentFormat::Bf16,
            Self::Bits8(_) => MomentFormat::Bits8,
        }
    }

    /// Replaces its tensor.
    pub fn map<G, J>(self, float: impl FnOnce(F) -> G, int: impl FnOnce(I) -> J) -> Moment<G, J> {
        match self {
            Self::Wide(tensor) => Moment::Wide(float(tensor)),
            Self::Bf16(words) => Moment::Bf16(int(words)),
            Self::Bits8(words) => Moment::Bits8(int(words)),
        }
    }

    /// A moment in a format of words.
    fn in_words(format: MomentFormat, words: I) -> Self {
        match format {
            MomentFormat::Wide => unreachable!("a wide moment has no words"),
            MomentFormat::Bf16 => Self::Bf16(words),
            MomentFormat::Bits8 => Self::Bits8(words),
        }
    }
}

/// A moment in tensors of a backend.
pub type StoredMomentOf<B> = Moment<FloatTensor<B>, IntTensor<B>>;

/// Makes an undefined moment for a parameter of this shape.
pub fn undefined<B: Backend>(
    format: MomentFormat,
    shape: Shape,
    wide: FloatDType,
    device: &Device<B>,
) -> StoredMomentOf<B> {
    match format.words(shape.num_elements()) {
        None => Moment::Wide(B::float_empty(shape, device, wide)),
        Some(words) => {
            let words = B::int_empty(Shape::new([words]), device, IntDType::U32);
            Moment::in_words(format, words)
        }
    }
}

/// Returns the moment at a place of a parameter of this shape in a wide dtype. One that is kept in words is read by the
/// host.
///
/// # Panics
///
/// Panics if the device cannot deliver it.
pub fn widened<B: Backend>(
    moment: StoredMomentOf<B>,
    shape: Shape,
    wide: DType,
    place: Place,
) -> FloatTensor<B> {
    let format = moment.format();
    match moment {
        Moment::Wide(tensor) => crate::widen::cast::<B>(tensor, wide),
        Moment::Bf16(words) | Moment::Bits8(words) => {
            let device = int_device_of::<B>(&words);
            let data = read_sync(B::int_into_data(words)).expect("the device delivers moments");
            let elements = shape.num_elements();
            let words = data.iter::<u32>();
            let values: Vec<f32> = if format == MomentFormat::Bf16 {
                let halves = rounding::unpack(words, elements);
                halves.into_iter().map(from_bf16).collect()
            } else {
                blocks::unpack(&words.collect::<Vec<_>>(), elements, place)
            };
            let data = TensorData::new(values, shape).convert_dtype(wide);
            B::float_from_data(data, &device)
        }
    }
}

/// Keeps a wide moment in a format. The host rounds it: by the draws of a key, or to the nearest without one.
///
/// # Panics
///
/// Panics if the device cannot deliver it.
pub fn rounded<B: Backend>(
    wide: FloatTensor<B>,
    format: MomentFormat,
    place: Place,
    key: Option<u32>,
) -> StoredMomentOf<B> {
    let Some(len) = format.words(wide.shape().num_elements()) else {
        return Moment::Wide(wide);
    };
    let device = device_of::<B>(&wide);
    let data = read_sync(B::float_into_data(wide)).expect("the device delivers moments");
    let values: Vec<f32> = data.iter::<f32>().collect();
    let words = if format == MomentFormat::Bf16 {
        let random = |index| match key {
            Some(key) => Draw::new(key, index).bits_16(place),
            None => rounding::NEAREST,
        };
        let values = values.iter().enumerate();
        rounding::pack(values.map(|(at, value)| to_bf16(*value, random(at))))
    } else {
        blocks::pack(&values, place, |index| match key {
            Some(key) => Draw::new(key, index).bits_20(place),
            None => blocks::NEAREST,
        })
    };
    let data = TensorData::new(words, [len]);
    Moment::in_words(format, B::int_from_data(data, &device))
}
