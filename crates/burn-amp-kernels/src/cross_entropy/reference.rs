use crate::{log_softmax, prelude::*};

/// Gathers the log-probabilities of the targets with Burn's op.
pub fn reference<B: Backend>(output: FloatTensor<B>, targets: IntTensor<B>) -> FloatTensor<B> {
    let last = output.rank() - 1;
    B::float_gather(last, output, targets)
}

/// Computes the gradients of all log-probabilities with Burn's ops, then the backward pass of log-softmax.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let (last, dtype) = (x.rank() - 1, wide_dtype(x.dtype()));
    let zeros = B::float_zeros(x.shape(), &B::float_device(&x), dtype.into());
    let grad = B::float_scatter_add(last, zeros, targets, cast::<B>(grad, dtype));
    log_softmax::reference_backward::<B>(x, log_sum_exp, grad, last)
}
