//! What every backend can do, by a kernel or by its reference.

use burn_amp_core::DynamicLossScale;
use burn_backend::{
    Backend, FloatDType,
    tensor::{FloatTensor, IntTensor},
};

use crate::{
    cross_entropy, finite, gelu,
    layer_norm::{self, LayerNorm, LayerNormGradients},
    log_softmax::{self, LogSoftmax},
    loss_scale, softmax, unscale,
};

/// The ops of this crate on one backend. Without a method of its own a backend computes with the references.
#[diagnostic::on_unimplemented(
    message = "burn-amp does not know the backend `{Self}`",
    label = "no kernels for this backend",
    note = "turn on burn-amp's feature of the backend (`flex`, `cuda`, `vulkan`, `cubecl`, `tch`; `fusion` beside Burn's)",
    note = "or, for a backend of your own: `impl burn_amp::Kernels for MyBackend {{}}`"
)]
pub trait Kernels: Backend {
    /// See [`finite`].
    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        finite::reference::<Self>(tensors)
    }

    /// See [`unscale`].
    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        unscale::reference::<Self>(tensors, factor)
    }

    /// See [`loss_scale`].
    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        loss_scale::reference_next::<Self>(state, flags, scaling)
    }

    /// See [`loss_scale`].
    fn unscale_unless_overflowed(
        gradient: FloatTensor<Self>,
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        loss_scale::reference_unscale::<Self>(gradient, before, after)
    }

    /// See [`gelu`].
    fn gelu_in_f32(x: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::reference::<Self>(x)
    }

    /// See [`gelu::reference_backward`].
    fn gelu_in_f32_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::reference_backward::<Self>(x, grad)
    }

    /// See [`softmax`].
    fn softmax_in_f32(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        softmax::reference::<Self>(x, dim)
    }

    /// See [`softmax::reference_backward`].
    fn softmax_in_f32_backward(
        output: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        softmax::reference_backward::<Self>(output, grad, dim)
    }

    /// See [`log_softmax`].
    fn log_softmax_in_f32(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        log_softmax::reference::<Self>(x, dim, dtype)
    }

    /// See [`log_softmax::reference_backward`].
    fn log_softmax_in_f32_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        log_softmax::reference_backward::<Self>(x, log_sum_exp, grad, dim)
    }

    /// See [`cross_entropy`].
    fn log_softmax_at(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> FloatTensor<Self> {
        cross_entropy::reference::<Self>(x, log_sum_exp, targets)
    }

    /// See [`cross_entropy`].
    fn log_softmax_at_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        cross_entropy::reference_backward::<Self>(x, log_sum_exp, targets, grad)
    }

    /// See [`layer_norm`].
    fn layer_norm_in_f32(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> LayerNorm<Self> {
        layer_norm::reference::<Self>(x, gamma, beta, epsilon)
    }

    /// See [`layer_norm::reference_backward`].
    fn layer_norm_in_f32_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_std: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<Self> {
        layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad)
    }
}
