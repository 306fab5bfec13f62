//! On the CPU, over the bytes of the tensors.

use burn_backend::{DType, TensorData, bf16, f16};
use burn_flex::FlexTensor;

use super::words;
use crate::names::{change_bytes, dtype_of};

/// Packs the mask.
pub(super) fn not_positive(x: FlexTensor) -> FlexTensor {
    let data = x.into_data();
    let bits = match dtype_of(&data) {
        DType::F64 => pack(data.as_slice::<f64>(), |x| *x <= 0.0),
        DType::F32 | DType::Flex32 => pack(data.as_slice::<f32>(), |x| *x <= 0.0),
        DType::F16 => pack(data.as_slice::<f16>(), |x| *x <= f16::ZERO),
        DType::BF16 => pack(data.as_slice::<bf16>(), |x| *x <= bf16::ZERO),
        other => unreachable!("a float tensor has a float dtype, not {other:?}"),
    };
    let shape = [bits.len()];
    FlexTensor::from_data(TensorData::new(bits, shape))
}

fn pack<T, E: std::fmt::Debug>(
    values: Result<&[T], E>,
    is_not_positive: impl Fn(&T) -> bool,
) -> Vec<u32> {
    let values = values.expect("the data has the dtype that it states");
    let mut bits = Vec::with_capacity(words(values.len()));
    bits.extend(values.chunks(32).map(|chunk| {
        let word = chunk.iter().rev();
        word.fold(0, |word, x| word << 1 | u32::from(is_not_positive(x)))
    }));
    bits
}

/// Applies the mask. All bits of a floating-point zero are 0, so the dtype does not matter.
pub(super) fn zeroed(x: FlexTensor, bits: FlexTensor) -> FlexTensor {
    let mask = bits.into_data();
    let words = mask.as_slice::<u32>().expect("the words of a mask are u32");
    let size = x.dtype().size();
    let mut data = x.into_data();
    change_bytes(&mut data, |bytes| {
        for (chunk, word) in bytes.chunks_mut(32 * size).zip(words) {
            for (bit, value) in chunk.chunks_mut(size).enumerate() {
                if word >> bit & 1 == 1 {
                    value.fill(0);
                }
            }
        }
    });
    FlexTensor::from_data(data)
}
