//! Conversions between Burn's dtypes and [`Precision`], the policy's.

use burn_amp_core::{Precision, replay::Dtype};
use burn_backend::{
    Backend, DType, FloatDType, TensorData, TensorMetadata, read_sync, tensor::FloatTensor,
};

/// Returns the storage dtype of a float primitive.
#[inline]
pub fn of<T: TensorMetadata>(tensor: &T) -> Precision {
    from_burn(tensor.dtype())
}

/// Converts Burn's dtype of a float tensor.
#[inline]
pub fn from_burn(dtype: DType) -> Precision {
    match dtype {
        DType::F64 => Precision::F64,
        DType::F32 => Precision::F32,
        DType::Flex32 => Precision::Flex32,
        DType::F16 => Precision::F16,
        DType::BF16 => Precision::BF16,
        other => unreachable!("a float tensor has a float dtype, not {other:?}"),
    }
}

/// Converts to Burn's dtype of a tensor.
#[inline]
pub fn to_burn(dtype: Precision) -> DType {
    to_float(dtype).into()
}

/// Converts to the dtype that Burn's float ops take as an argument.
#[inline]
pub fn to_float(dtype: Precision) -> FloatDType {
    match dtype {
        Precision::F64 => FloatDType::F64,
        Precision::F32 => FloatDType::F32,
        Precision::Flex32 => FloatDType::Flex32,
        Precision::F16 => FloatDType::F16,
        Precision::BF16 => FloatDType::BF16,
    }
}

/// The dtypes of recorded steps and those of Burn, but for bools.
pub(crate) const OF_FILES: [(Dtype, DType); 12] = [
    (Dtype::F64, DType::F64),
    (Dtype::F32, DType::F32),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::I64, DType::I64),
    (Dtype::I32, DType::I32),
    (Dtype::I16, DType::I16),
    (Dtype::I8, DType::I8),
    (Dtype::U64, DType::U64),
    (Dtype::U32, DType::U32),
    (Dtype::U16, DType::U16),
    (Dtype::U8, DType::U8),
];

/// Casts the tensor unless it has the dtype already.
#[inline]
pub fn cast<B: Backend>(tensor: FloatTensor<B>, to: Precision) -> FloatTensor<B> {
    if of(&tensor) == to {
        tensor
    } else {
        B::float_cast(tensor, to_float(to))
    }
}

/// Reads a tensor in F32 or F64, which every backend hands out, and which hold every other dtype. Incurs a device-to-host
/// read.
pub(crate) fn read<B: Backend>(tensor: FloatTensor<B>) -> TensorData {
    let wide = of(&tensor).join(Precision::F32);
    read_sync(B::float_into_data(cast::<B>(tensor, wide)))
        .unwrap_or_else(|error| panic!("cannot read a tensor from the device: {error}"))
}
