use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::row::{cast, widened};

/// In Burn's ops, with casts around them.
pub fn reference<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::gelu(widened::<B>(x)), dtype)
}

/// The gradient of the input, in its dtype.
pub fn reference_backward<B: Backend>(x: FloatTensor<B>, grad: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = x.dtype();
    cast::<B>(B::gelu_backward(widened::<B>(x), widened::<B>(grad)), dtype)
}
