//! `ActivationOps`.

use burn_amp_core::{Op, activation_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{Scalar, ops::ActivationOps, tensor::FloatTensor};

use crate::{Amp, PolicySource, call::Call, dtype, graph::Graph};

activation_ops! { forward!
    fn gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::gelu);
        call.float(&x);
        let call = call.decide();
        match call.is_internal() {
            true => call.stored(G::Inner::gelu_in_f32(x.inner)),
            false => call.float(G::Inner::gelu(call.cast(x))),
        }
    }

    fn softmax(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::softmax);
        call.float(&x);
        let call = call.decide();
        match call.is_internal() {
            true => call.stored(G::Inner::softmax_in_f32(x.inner, dim)),
            false => call.float(G::Inner::softmax(call.cast(x), dim)),
        }
    }

    fn log_softmax(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::log_softmax);
        call.float(&x);
        let call = call.decide();
        match call.in_f32() {
            Some(result) => {
                let result = dtype::to_float(result);
                call.stored(G::Inner::log_softmax_in_f32(x.inner, dim, result).output)
            }
            None => call.float(G::Inner::log_softmax(call.cast(x), dim)),
        }
    }
}
