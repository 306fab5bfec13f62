//! Row-wise ops: what their references share.

use burn_backend::{Backend, DType, FloatDType, Shape, TensorMetadata, tensor::FloatTensor};

/// A cast that is nothing if the dtype is right already.
pub(crate) fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match tensor.dtype() == dtype {
        true => tensor,
        false => B::float_cast(tensor, FloatDType::from(dtype)),
    }
}

/// The dtype to compute in: F32, or F64 for F64.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The tensor in the dtype to compute in.
pub(crate) fn widened<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide(tensor.dtype());
    cast::<B>(tensor, dtype)
}

/// A tensor without elements, of the shape of another, in the dtype to compute in.
pub(crate) fn nothing_like<B: Backend>(tensor: &FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide(tensor.dtype());
    B::float_empty(tensor.shape(), &B::float_device(tensor), dtype.into())
}

/// `[n]` as `[1, …, 1, n]`.
pub(crate) fn as_row<B: Backend>(tensor: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let mut dims = vec![1; rank];
    dims[rank - 1] = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from(dims))
}

/// The sum over all dimensions but the last, as `[n]`.
pub(crate) fn sum_rows<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let shape = tensor.shape();
    let n = shape[shape.num_dims() - 1];
    let rows = shape.num_elements() / n.max(1);
    let sum = B::float_sum_dim(B::float_reshape(tensor, Shape::new([rows, n])), 0);
    B::float_reshape(sum, Shape::new([n]))
}
