//! Activation functions in mixed precision: they read the operand as it is stored, compute in F32, and round once.
//!
//! | op | computes | dtype |
//! |---|---|---|
//! | [`forward`] | the function | any that is asked for |
//! | [`backward`] | its slope at `x` times the gradient | of `x` |
//!
//! The references are Burn's ops between casts. On a GPU these are up to 19 kernels, as Burn composes a sigmoid or a GELU of
//! elementwise ops; here one kernel reads and writes each element once. Fusion keeps the references, of which it makes one
//! kernel with their neighbours.
//!
//! On Burn's `Autodiff` an activation is one node, which keeps the operand as it is stored. The kernel's slope of GELU is that
//! of GELU itself; Burn's `gelu_backward` differentiates the approximation by tanh on backends without an op of their own.

#[cfg(feature = "cubecl")]
mod kernel;
mod node;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{slope, value};

use crate::prelude::*;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x · Φ(x)`, where Φ is the normal distribution's cumulative distribution function.
    Gelu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
}

/// Computes an activation function in mixed precision, rounded to `dtype`.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    activation: Activation,
    dtype: FloatDType,
) -> FloatTensor<B> {
    B::run(ActivationForward { activation, dtype }, [x].into()).one()
}

/// Computes the gradient of [`forward`] with respect to `x`, in the dtype of `x`.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    activation: Activation,
) -> FloatTensor<B> {
    B::run(ActivationBackward { activation }, [x, grad].into()).one()
}

/// The sigmoid of a tensor in F32 or F64. Fusion is given four ops, where Burn's are eight: each costs the host some microseconds.
fn sigmoid<B: AmpBackend>(x: FloatTensor<B>) -> FloatTensor<B> {
    if !B::fuses_elementwise() {
        return B::sigmoid(x);
    }
    let exp = B::float_exp(B::float_neg(x));
    B::float_recip(B::float_add_scalar(exp, 1.0.into()))
}

/// The gradient with respect to the operand of the hyperbolic tangent, from its result in F32 or F64.
fn tanh_backward<B: AmpBackend>(output: FloatTensor<B>, grad: FloatTensor<B>) -> FloatTensor<B> {
    let square = B::float_mul(output.clone(), output);
    let slope = B::float_add_scalar(B::float_neg(square), 1.0.into());
    B::float_mul(grad, slope)
}

#[derive(Clone, Copy, Debug)]
struct ActivationForward {
    activation: Activation,
    dtype: FloatDType,
}

impl Kernel for ActivationForward {
    const NAME: &'static str = "burn_amp::activation";
    const IS_FUSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.one();
        // burn-cubecl 0.21.0 computes a negative size for an empty operand.
        if x.shape().num_elements() == 0 {
            return [B::float_empty(x.shape(), &device_of::<B>(&x), self.dtype)].into();
        }
        let x = widen::<B>(x);
        let output = match self.activation {
            Activation::Gelu => B::gelu(x),
            Activation::Sigmoid => sigmoid::<B>(x),
            Activation::Tanh => B::float_tanh(x),
        };
        [cast::<B>(output, self.dtype.into())].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if self.dtype == FloatDType::F64 || operands.is_empty() {
            return Err(operands);
        }
        let (x, dtype) = (operands.one(), self.dtype.into());
        let output = kernel::activation(x, None, self.activation, dtype);
        Ok([output].into())
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        [node::record::<B, C>(self, operands.one())].into()
    }
}

#[derive(Clone, Copy, Debug)]
struct ActivationBackward {
    activation: Activation,
}

impl Kernel for ActivationBackward {
    const NAME: &'static str = "burn_amp::activation_backward";
    const IS_FUSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, grad] = operands.exactly();
        if x.shape().num_elements() == 0 {
            return [x].into();
        }
        let dtype = x.dtype();
        let x = widen::<B>(x);
        let grad = cast::<B>(grad, x.dtype());
        let gradient = match self.activation {
            Activation::Gelu => B::gelu_backward(x, grad),
            Activation::Sigmoid => B::sigmoid_backward(sigmoid::<B>(x), grad),
            Activation::Tanh => tanh_backward::<B>(B::float_tanh(x), grad),
        };
        [cast::<B>(gradient, dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if operands.is_empty() {
            return Err(operands);
        }
        let [x, grad] = operands.exactly();
        let dtype = x.dtype;
        Ok([kernel::activation(x, Some(grad), self.activation, dtype)].into())
    }
}
