use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::widen::{cast, widen};

/// Computes GELU with Burn's op, between casts.
pub fn reference<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::gelu(widen::<B>(x)), dtype)
}

/// Computes the gradient of the input, in the input's dtype.
pub fn reference_backward<B: Backend>(x: FloatTensor<B>, grad: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::gelu_backward(widen::<B>(x), widen::<B>(grad)), dtype)
}
