use burn_backend::{Backend, tensor::FloatTensor};

use crate::widen::widen;

/// Multiplies with Burn's op, which rounds the product to the dtype of its operands, and casts it.
pub fn reference_matmul<B: Backend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    widen::<B>(B::float_matmul(lhs, rhs))
}
