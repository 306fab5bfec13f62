//! `ActivationOps`.

use burn_amp_core::{Op, activation_ops};
use burn_amp_kernels::{
    self as kernels, AmpBackend, activation::Activation, log_softmax::LogSoftmax,
};
use burn_backend::{Scalar, TensorMetadata, ops::ActivationOps, tensor::FloatTensor};

use super::scores;
use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::forward,
    },
    graph::Graph,
    policy::ConfigSource,
    precision,
    tensor::{AmpTensor, Recipe, Saturating},
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> ActivationOps<Self> for Amp<B, P, G> {
    activation_ops! { forward! }
}

fn gelu<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::gelu);
    call.float(&x);
    let call = call.decide();
    if call.is_internal() {
        let x = call.as_stored(x);
        let dtype = x.dtype().into();
        call.stored(kernels::activation::forward::<G::Inner>(
            x,
            Activation::Gelu,
            dtype,
        ))
    } else {
        call.result(G::Inner::gelu(call.cast(x)))
    }
}

fn softmax<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::softmax);
    call.float(&x);
    let call = call.decide();
    if call.is_internal() {
        let (x, before) = scores::operand(&call, x);
        let result = kernels::softmax::forward::<G::Inner>(x.clone(), dim, before.clone());
        call.saturating(Saturating::Softmax { dim, before }, x, call.stored(result))
    } else {
        call.result(G::Inner::softmax(call.cast(x), dim))
    }
}

/// A saturating function of each element, which remembers its operand. `op` is that of the inner backend.
pub(super) fn saturating<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    activation: Activation,
    op: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> AmpTensor<B, G> {
    let operand = x.clone();
    let dtype = x.dtype().into();
    let result = if !call.lowers || !precision::of(&x).is_low() {
        op(operand)
    } else if call.recomputes {
        kernels::activation::forward::<G::Recomputed>(operand, activation, dtype)
    } else {
        kernels::activation::forward::<G::Inner>(operand, activation, dtype)
    };
    call.saturating(Saturating::Activation(activation), x, call.result(result))
}

/// Along the last dimension, the result keeps its operand, so that [`float_gather`](super::tensor) can use it.
fn log_softmax<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::log_softmax);
    call.float(&x);
    let call = call.decide();
    let Some(dtype) = call.in_f32() else {
        return call.result(G::Inner::log_softmax(call.cast(x), dim));
    };
    let x = call.as_stored(x);
    let is_last = dim + 1 == x.rank();
    let LogSoftmax {
        output,
        log_sum_exp,
    } = kernels::log_softmax::forward::<G::Inner>(x.clone(), dim, precision::to_float(dtype));
    let output = call.stored::<G>(output);
    if is_last {
        output.with_recipe(Recipe::LogSoftmax { x, log_sum_exp })
    } else {
        output
    }
}
