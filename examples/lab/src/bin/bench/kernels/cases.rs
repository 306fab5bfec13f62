//! The kernels, what each moves, and its reference.

use burn::tensor::FloatDType;
use burn_amp_kernels::{
    Kernels, cross_entropy, finite, layer_norm, log_softmax, loss_scale, softmax, unscale,
};

use super::operands::Operands;

/// A kernel.
pub struct Case<B: Kernels> {
    pub name: &'static str,
    /// Read and written for each element of `x`; what there is one of per row or column is left out.
    pub bytes_per_element: usize,
    pub kernel: fn(&Operands<B>),
    pub reference: fn(&Operands<B>),
}

/// 2 bytes.
const LOW: usize = 2;
/// 4 bytes.
const F32: usize = 4;

impl<B: Kernels> Case<B> {
    pub fn all() -> Vec<Self> {
        vec![
            Self {
                name: "finite check, f32",
                bytes_per_element: F32,
                kernel: |o| drop(B::not_finite(o.wide_list.clone())),
                reference: |o| drop(finite::reference::<B>(o.wide_list.clone())),
            },
            Self {
                name: "unscale with check",
                bytes_per_element: LOW + F32,
                kernel: |o| drop(B::unscale(o.low_list.clone(), 0.5)),
                reference: |o| drop(unscale::reference::<B>(o.low_list.clone(), 0.5)),
            },
            Self {
                name: "unscale on the device, f32",
                bytes_per_element: F32 + F32,
                kernel: |o| {
                    let state = || o.state.clone();
                    drop(B::unscale_unless_overflowed(
                        o.wide.clone(),
                        state(),
                        state(),
                    ));
                },
                reference: |o| {
                    let state = || o.state.clone();
                    drop(loss_scale::reference_unscale::<B>(
                        o.wide.clone(),
                        state(),
                        state(),
                    ));
                },
            },
            Self {
                name: "softmax",
                bytes_per_element: LOW + LOW,
                kernel: |o| drop(B::softmax_in_f32(o.x.clone(), 1)),
                reference: |o| drop(softmax::reference::<B>(o.x.clone(), 1)),
            },
            Self {
                name: "softmax backward",
                bytes_per_element: 2 * LOW + LOW,
                kernel: |o| {
                    drop(B::softmax_in_f32_backward(
                        o.softmax.clone(),
                        o.grad.clone(),
                        1,
                    ))
                },
                reference: |o| {
                    let (output, grad) = (o.softmax.clone(), o.grad.clone());
                    drop(softmax::reference_backward::<B>(output, grad, 1));
                },
            },
            Self {
                name: "log-softmax to f32",
                bytes_per_element: LOW + F32,
                kernel: |o| drop(B::log_softmax_in_f32(o.x.clone(), 1, FloatDType::F32)),
                reference: |o| {
                    drop(log_softmax::reference::<B>(o.x.clone(), 1, FloatDType::F32));
                },
            },
            Self {
                name: "log-softmax backward",
                bytes_per_element: LOW + F32 + LOW,
                kernel: |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    drop(B::log_softmax_in_f32_backward(
                        x,
                        statistics,
                        o.wide.clone(),
                        1,
                    ));
                },
                reference: |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    let grad = o.wide.clone();
                    drop(log_softmax::reference_backward::<B>(x, statistics, grad, 1));
                },
            },
            Self {
                name: "cross entropy backward",
                bytes_per_element: LOW + LOW,
                kernel: |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    let (targets, grad) = (o.targets.clone(), o.grad_of_rows.clone());
                    drop(B::log_softmax_at_backward(x, statistics, targets, grad));
                },
                reference: |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    let (targets, grad) = (o.targets.clone(), o.grad_of_rows.clone());
                    drop(cross_entropy::reference_backward::<B>(
                        x, statistics, targets, grad,
                    ));
                },
            },
            Self {
                name: "layer norm",
                bytes_per_element: LOW + LOW,
                kernel: |o| {
                    let (x, gamma) = (o.x.clone(), o.gamma.clone());
                    drop(B::layer_norm_in_f32(x, gamma.clone(), Some(gamma), 1e-5));
                },
                reference: |o| {
                    let (x, gamma) = (o.x.clone(), o.gamma.clone());
                    drop(layer_norm::reference::<B>(
                        x,
                        gamma.clone(),
                        Some(gamma),
                        1e-5,
                    ));
                },
            },
            Self {
                name: "layer norm backward",
                bytes_per_element: 2 * LOW + LOW,
                kernel: |o| {
                    let (x, gamma) = (o.x.clone(), o.gamma.clone());
                    let (mean, inverse_std) = (o.mean.clone(), o.inverse_std.clone());
                    let grad = o.grad.clone();
                    drop(B::layer_norm_in_f32_backward(
                        x,
                        gamma,
                        mean,
                        inverse_std,
                        grad,
                    ));
                },
                reference: |o| {
                    let (x, gamma) = (o.x.clone(), o.gamma.clone());
                    let (mean, inverse_std) = (o.mean.clone(), o.inverse_std.clone());
                    let grad = o.grad.clone();
                    drop(layer_norm::reference_backward::<B>(
                        x,
                        gamma,
                        mean,
                        inverse_std,
                        grad,
                    ));
                },
            },
        ]
    }
}
