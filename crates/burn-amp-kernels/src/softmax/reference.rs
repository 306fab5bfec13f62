use super::ScaleMask;
use crate::prelude::*;

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

/// Computes the gradient of the input from the output and its gradient, in the dtype of the output. A row of zeros, as
/// attention has where all keys are masked, gives zeros.
pub fn reference_backward<B: Backend>(
    output: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<B> {
    let dtype = output.dtype();
    let (output, grad) = (widen::<B>(output), cast::<B>(grad, wide_dtype(dtype)));
    let sum = B::float_sum_dim(B::float_mul(grad.clone(), output.clone()), dim);
    let weight = sum_dim::<B>(output.clone(), dim);
    let is_zero = B::float_equal_elem(weight.clone(), 0f32.into(), bool_dtype::<B>(&weight));
    let weight = B::float_mask_fill(weight, is_zero, 1f32.into());
    let dx = B::float_mul(output, B::float_sub(grad, B::float_div(sum, weight)));
    cast::<B>(before.backward().apply::<B>(dx), dtype)
}
