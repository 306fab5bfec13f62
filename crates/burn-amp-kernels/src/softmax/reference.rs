use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::row::{cast, wide, widened};

/// In Burn's ops, with casts around them.
pub fn reference<B: Backend>(x: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::softmax(widened::<B>(x), dim), dtype)
}

/// The gradient of the input from the output and its gradient, in the dtype of the output.
pub fn reference_backward<B: Backend>(
    output: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
) -> FloatTensor<B> {
    let dtype = output.dtype();
    let (output, grad) = (widened::<B>(output), cast::<B>(grad, wide(dtype)));
    let sum = B::float_sum_dim(B::float_mul(grad.clone(), output.clone()), dim);
    let dx = B::float_mul(output, B::float_sub(grad, sum));
    cast::<B>(dx, dtype)
}
