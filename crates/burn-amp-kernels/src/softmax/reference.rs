use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::widen::{cast, wide_dtype, widen};

/// Computes softmax with Burn's op, between casts.
pub fn reference<B: Backend>(x: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::softmax(widen::<B>(x), dim), dtype)
}

/// Computes the gradient of the input from the output and its gradient, in the dtype of the output.
pub fn reference_backward<B: Backend>(
    output: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
) -> FloatTensor<B> {
    let dtype = output.dtype();
    let (output, grad) = (widen::<B>(output), cast::<B>(grad, wide_dtype(dtype)));
    let sum = B::float_sum_dim(B::float_mul(grad.clone(), output.clone()), dim);
    let dx = B::float_mul(output, B::float_sub(grad, sum));
    cast::<B>(dx, dtype)
}
