//! `ActivationOps`.

use burn_amp_core::{Op, activation_ops};
use burn_amp_kernels::{Kernels, log_softmax::LogSoftmax};
use burn_backend::{Scalar, TensorMetadata, ops::ActivationOps, tensor::FloatTensor};

use crate::{Amp, AmpTensor, PolicySource, call::Call, dtype, graph::Graph, tensor::Known};

activation_ops! { forward!
    fn gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::gelu);
        call.float(&x);
        let call = call.decide();
        match call.is_internal() {
            true => call.stored(G::Inner::mixed_gelu(x.inner)),
            false => call.float(G::Inner::gelu(call.cast(x))),
        }
    }

    fn softmax(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::softmax);
        call.float(&x);
        let call = call.decide();
        match call.is_internal() {
            true => call.stored(G::Inner::mixed_softmax(x.inner, dim)),
            false => call.float(G::Inner::softmax(call.cast(x), dim)),
        }
    }

    fn log_softmax(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::log_softmax);
        call.float(&x);
        let call = call.decide();
        match call.in_f32() {
            Some(result) => {
                let x = x.inner;
                let is_last = dim + 1 == x.rank();
                let LogSoftmax { output, log_sum_exp } =
                    G::Inner::mixed_log_softmax(x.clone(), dim, dtype::to_float(result));
                AmpTensor {
                    known: is_last.then(|| Box::new(Known::LogSoftmax { x, log_sum_exp })),
                    ..call.stored(output)
                }
            }
            None => call.float(G::Inner::log_softmax(call.cast(x), dim)),
        }
    }
}
