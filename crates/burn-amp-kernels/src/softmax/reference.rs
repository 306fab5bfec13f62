use burn_backend::{
    Backend, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use super::ScaleMask;
use crate::widen::{cast, wide_dtype, widen};

/// Computes the op with Burn's, between casts.
pub fn reference<B: Backend>(
    x: FloatTensor<B>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<B> {
    let dtype = x.dtype();
    let x = before.apply::<B>(widen::<B>(x));
    cast::<B>(B::softmax(x, dim), dtype)
}

/// Computes the gradient of the input from the output and its gradient, in the dtype of the output.
pub fn reference_backward<B: Backend>(
    output: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<B> {
    let dtype = output.dtype();
    let (output, grad) = (widen::<B>(output), cast::<B>(grad, wide_dtype(dtype)));
    let sum = B::float_sum_dim(B::float_mul(grad.clone(), output.clone()), dim);
    let dx = B::float_mul(output, B::float_sub(grad, sum));
    cast::<B>(before.apply_backward::<B>(dx), dtype)
}
