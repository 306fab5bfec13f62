use burn_backend::{Backend, tensor::FloatTensor};

use crate::widen::widen;

/// Multiplies with Burn's op, after casts.
pub fn reference<B: Backend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    B::float_mul(widen::<B>(lhs), widen::<B>(rhs))
}
