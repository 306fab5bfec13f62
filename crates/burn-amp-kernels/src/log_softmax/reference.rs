use super::LogSoftmax;
use crate::prelude::*;

/// Computes log-softmax with Burn's ops.
pub fn reference<B: Backend>(x: FloatTensor<B>, dim: usize, dtype: FloatDType) -> LogSoftmax<B> {
    let x = widen::<B>(x);
    let max = B::float_max_dim(x.clone(), dim);
    let shifted = B::float_sub(x, max.clone());
    let log_sum = B::float_log(B::float_sum_dim(B::float_exp(shifted.clone()), dim));
    LogSoftmax {
        output: cast::<B>(B::float_sub(shifted, log_sum.clone()), dtype.into()),
        log_sum_exp: B::float_add(max, log_sum),
    }
}

/// Computes the gradient of the input, in the input's dtype.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
) -> FloatTensor<B> {
    let dtype = x.dtype();
    let (x, grad) = (widen::<B>(x), cast::<B>(grad, wide_dtype(dtype)));
    let probabilities = B::float_exp(B::float_sub(x, log_sum_exp));
    let sum = sum_dim::<B>(grad.clone(), dim);
    cast::<B>(B::float_sub(grad, B::float_mul(probabilities, sum)), dtype)
}
