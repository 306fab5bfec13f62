use burn_backend::{
    Backend, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};

use crate::{
    log_softmax,
    row::{cast, wide, widened},
};

/// In Burn's ops.
pub fn reference<B: Backend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
) -> FloatTensor<B> {
    let last = x.rank() - 1;
    B::float_sub(widened::<B>(B::float_gather(last, x, targets)), log_sum_exp)
}

/// In Burn's ops: the gradients of all log-probabilities, and the backward pass of log-softmax.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let (last, dtype) = (x.rank() - 1, wide(x.dtype()));
    let zeros = B::float_zeros(x.shape(), &B::float_device(&x), dtype.into());
    let grad = B::float_scatter_add(last, zeros, targets, cast::<B>(grad, dtype));
    log_softmax::reference_backward::<B>(x, log_sum_exp, grad, last)
}
