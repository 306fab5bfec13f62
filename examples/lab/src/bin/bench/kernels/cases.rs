//! The kernels, the bytes that each moves, and its reference.

use burn::tensor::{FloatDType, TensorMetadata};
use burn_amp_kernels::{
    AmpBackend,
    activation::{self, Activation},
    cat, cross_entropy, finite, layer_norm, log_softmax, loss_scale,
    softmax::{self, ScaleMask},
    unscale, weight_product,
};

use super::operands::Operands;

/// A kernel with its reference.
pub struct Case<B: AmpBackend> {
    pub name: &'static str,
    /// The bytes read and written for each element of `x`; values of which there is one per row or column do not count.
    pub bytes_per_element: usize,
    pub kernel: Work<B>,
    pub reference: Work<B>,
}

type Work<B> = Box<dyn Fn(&Operands<B>)>;

/// 2 bytes.
const LOW: usize = 2;
/// 4 bytes.
const F32: usize = 4;

fn case<B: AmpBackend, K: 'static, R: 'static>(
    name: &'static str,
    bytes_per_element: usize,
    kernel: fn(&Operands<B>) -> K,
    reference: fn(&Operands<B>) -> R,
) -> Case<B> {
    Case {
        name,
        bytes_per_element,
        kernel: Box::new(move |o| drop(kernel(o))),
        reference: Box::new(move |o| drop(reference(o))),
    }
}

impl<B: AmpBackend> Case<B> {
    pub fn all() -> Vec<Self> {
        vec![
            case(
                "finite check, f32",
                F32,
                |o| burn_amp_kernels::finite::not_finite::<B>(o.wide_list.clone()),
                |o| finite::reference::<B>(o.wide_list.clone()),
            ),
            case(
                "unscale with check",
                LOW + F32,
                |o| burn_amp_kernels::unscale::unscale::<B>(o.low_list.clone(), 0.5),
                |o| unscale::reference::<B>(o.low_list.clone(), 0.5),
            ),
            case(
                "unscale on the device, f32",
                F32 + F32,
                |o| {
                    let [state, after] = [(); 2].map(|()| o.state.clone());
                    burn_amp_kernels::loss_scale::unscale_unless_overflowed::<B>(
                        o.wide.clone(),
                        state,
                        after,
                    )
                },
                |o| {
                    let [state, after] = [(); 2].map(|()| o.state.clone());
                    loss_scale::reference_unscale::<B>(o.wide.clone(), state, after)
                },
            ),
            case(
                "softmax",
                LOW + LOW,
                |o| {
                    burn_amp_kernels::softmax::forward::<B>(
                        o.x.clone(),
                        1,
                        burn_amp_kernels::softmax::ScaleMask::none(),
                    )
                },
                |o| softmax::reference::<B>(o.x.clone(), 1, ScaleMask::none()),
            ),
            case(
                "softmax backward",
                2 * LOW + LOW,
                |o| {
                    burn_amp_kernels::softmax::backward::<B>(
                        o.softmax.clone(),
                        o.grad.clone(),
                        1,
                        burn_amp_kernels::softmax::ScaleMask::none(),
                    )
                },
                |o| {
                    let (output, grad) = (o.softmax.clone(), o.grad.clone());
                    softmax::reference_backward::<B>(output, grad, 1, ScaleMask::none())
                },
            ),
            case(
                "log-softmax to f32",
                LOW + F32,
                |o| burn_amp_kernels::log_softmax::forward::<B>(o.x.clone(), 1, FloatDType::F32),
                |o| log_softmax::reference::<B>(o.x.clone(), 1, FloatDType::F32),
            ),
            case(
                "log-softmax backward",
                LOW + F32 + LOW,
                |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    burn_amp_kernels::log_softmax::backward::<B>(x, statistics, o.wide.clone(), 1)
                },
                |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    log_softmax::reference_backward::<B>(x, statistics, o.wide.clone(), 1)
                },
            ),
            case(
                "cross entropy backward",
                LOW + LOW,
                |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    let (targets, grad) = (o.targets.clone(), o.grad_of_rows.clone());
                    burn_amp_kernels::cross_entropy::backward::<B>(x, statistics, targets, grad)
                },
                |o| {
                    let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                    let (targets, grad) = (o.targets.clone(), o.grad_of_rows.clone());
                    cross_entropy::reference_backward::<B>(x, statistics, targets, grad)
                },
            ),
            case(
                "GELU",
                LOW + LOW,
                |o| {
                    burn_amp_kernels::activation::forward::<B>(
                        o.x.clone(),
                        Activation::Gelu,
                        o.x.dtype().into(),
                    )
                },
                |o| activation::reference::<B>(o.x.clone(), Activation::Gelu, o.x.dtype().into()),
            ),
            case(
                "GELU backward",
                2 * LOW + LOW,
                |o| {
                    burn_amp_kernels::activation::backward::<B>(
                        o.x.clone(),
                        o.grad.clone(),
                        Activation::Gelu,
                    )
                },
                |o| {
                    let (x, grad) = (o.x.clone(), o.grad.clone());
                    activation::reference_backward::<B>(x, grad, Activation::Gelu)
                },
            ),
            case(
                "sigmoid to f32",
                LOW + F32,
                |o| {
                    burn_amp_kernels::activation::forward::<B>(
                        o.x.clone(),
                        Activation::Sigmoid,
                        FloatDType::F32,
                    )
                },
                |o| activation::reference::<B>(o.x.clone(), Activation::Sigmoid, FloatDType::F32),
            ),
            case(
                "sigmoid backward",
                LOW + F32 + LOW,
                |o| {
                    burn_amp_kernels::activation::backward::<B>(
                        o.x.clone(),
                        o.wide.clone(),
                        Activation::Sigmoid,
                    )
                },
                |o| {
                    let (x, grad) = (o.x.clone(), o.wide.clone());
                    activation::reference_backward::<B>(x, grad, Activation::Sigmoid)
                },
            ),
            case(
                "layer norm",
                LOW + LOW,
                |o| {
                    let (x, gamma, beta) = (o.x.clone(), o.gamma.clone(), o.gamma.clone());
                    burn_amp_kernels::layer_norm::forward::<B>(x, gamma, Some(beta), 1e-5, None)
                },
                |o| {
                    let (x, gamma, beta) = (o.x.clone(), o.gamma.clone(), o.gamma.clone());
                    layer_norm::reference::<B>(x, gamma, Some(beta), 1e-5, None)
                },
            ),
            case(
                "layer norm of f32, with a copy",
                F32 + F32 + LOW,
                |o| {
                    let (x, gamma, beta) = (o.wide.clone(), o.gamma.clone(), o.gamma.clone());
                    burn_amp_kernels::layer_norm::forward::<B>(
                        x,
                        gamma,
                        Some(beta),
                        1e-5,
                        Some(o.x.dtype().into()),
                    )
                },
                |o| {
                    let (x, gamma, beta) = (o.wide.clone(), o.gamma.clone(), o.gamma.clone());
                    layer_norm::reference::<B>(x, gamma, Some(beta), 1e-5, Some(o.x.dtype().into()))
                },
            ),
            case(
                "concatenation of 4",
                4 * (LOW + LOW),
                |o| burn_amp_kernels::cat::cat::<B>(vec![o.x.clone(); 4], 1),
                |o| cat::reference::<B>(vec![o.x.clone(); 4], 1),
            ),
            case(
                "column sums",
                LOW,
                |o| burn_amp_kernels::weight_product::column_sums::<B>(o.x.clone()),
                |o| weight_product::reference_sums::<B>(o.x.clone()),
            ),
            case(
                "layer norm backward",
                2 * LOW + LOW,
                |o| {
                    let (x, gamma, grad) = (o.x.clone(), o.gamma.clone(), o.grad.clone());
                    let (mean, inverse_std) = (o.mean.clone(), o.inverse_std.clone());
                    burn_amp_kernels::layer_norm::backward::<B>(x, gamma, mean, inverse_std, grad)
                },
                |o| {
                    let (x, gamma, grad) = (o.x.clone(), o.gamma.clone(), o.grad.clone());
                    let (mean, inverse_std) = (o.mean.clone(), o.inverse_std.clone());
                    layer_norm::reference_backward::<B>(x, gamma, mean, inverse_std, grad)
                },
            ),
        ]
    }
}
