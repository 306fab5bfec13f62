//! Casts to the dtype in which the references compute.

use burn_backend::{
    Backend, BoolDType, DType, FloatDType, TensorMetadata, get_device_settings, tensor::FloatTensor,
};

use crate::names::device_of;

/// Casts a tensor, unless it has the dtype already.
pub(crate) fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        tensor
    } else {
        B::float_cast(tensor, FloatDType::from(dtype))
    }
}

/// Returns the dtype in which operands of `dtype` are computed: F32, or F64 for F64.
pub(crate) fn wide_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// Casts a tensor to the dtype in which it is computed.
pub(crate) fn widen<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide_dtype(tensor.dtype());
    cast::<B>(tensor, dtype)
}

/// Makes an uninitialized tensor of the same shape, in the dtype in which `tensor` is computed.
pub(crate) fn empty_wide_like<B: Backend>(tensor: &FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide_dtype(tensor.dtype());
    B::float_empty(tensor.shape(), &device_of::<B>(tensor), dtype.into())
}

/// Returns the dtype of the bools on the device of a tensor.
pub(crate) fn bool_dtype<B: Backend>(tensor: &FloatTensor<B>) -> BoolDType {
    get_device_settings::<B>(&device_of::<B>(tensor)).bool_dtype
}
