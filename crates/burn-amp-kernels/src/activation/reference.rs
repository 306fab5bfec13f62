use super::Activation;
use crate::prelude::*;

/// Computes with Burn's op, between casts.
pub fn reference<B: Backend>(
    x: FloatTensor<B>,
    activation: Activation,
    dtype: FloatDType,
) -> FloatTensor<B> {
    // burn-cubecl 0.21.0 computes a negative size for an empty operand.
    if x.shape().num_elements() == 0 {
        return B::float_empty(x.shape(), &B::float_device(&x), dtype);
    }
    let x = widen::<B>(x);
    let output = match activation {
        Activation::Gelu => B::gelu(x),
        Activation::Sigmoid => B::sigmoid(x),
        Activation::Tanh => B::float_tanh(x),
    };
    cast::<B>(output, dtype.into())
}

/// Computes the gradient of the input with Burn's ops, in the input's dtype.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    activation: Activation,
) -> FloatTensor<B> {
    if x.shape().num_elements() == 0 {
        return x;
    }
    let dtype = x.dtype();
    let x = widen::<B>(x);
    let grad = cast::<B>(grad, x.dtype());
    let gradient = match activation {
        Activation::Gelu => B::gelu_backward(x, grad),
        Activation::Sigmoid => B::sigmoid_backward(B::sigmoid(x), grad),
        Activation::Tanh => {
            let output = B::float_tanh(x);
            let square = B::float_mul(output.clone(), output);
            let slope = B::float_add_scalar(B::float_neg(square), 1.0.into());
            B::float_mul(grad, slope)
        }
    };
    cast::<B>(gradient, dtype)
}
