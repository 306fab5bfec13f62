//! The kernels, and the bytes that each moves.

use burn::tensor::{FloatDType, TensorMetadata};
use burn_amp_kernels::{
    AmpBackend,
    activation::{self, Activation},
    cat, cross_entropy, finite, layer_norm, log_softmax, loss_scale,
    softmax::{self, ScaleMask},
    unscale, weight_product,
};

use super::operands::OperandsOf;

/// A kernel.
pub struct Case<B: AmpBackend> {
    pub name: &'static str,
    /// The bytes read and written for each element of `x`; values of which there is one per row or column do not count.
    pub bytes_per_element: usize,
    pub work: Work<B>,
}

type Work<B> = Box<dyn Fn(&OperandsOf<B>)>;

/// 2 bytes.
const LOW: usize = 2;
/// 4 bytes.
const F32: usize = 4;

impl<B: AmpBackend> Case<B> {
    fn new<R: 'static>(
        name: &'static str,
        bytes_per_element: usize,
        work: fn(&OperandsOf<B>) -> R,
    ) -> Self {
        Self {
            name,
            bytes_per_element,
            work: Box::new(move |o| drop(work(o))),
        }
    }

    pub fn all() -> Vec<Self> {
        let mut cases = Self::elementwise();
        cases.extend(Self::of_rows());
        cases
    }

    fn elementwise() -> Vec<Self> {
        vec![
            Self::new("finite check, f32", F32, |o| {
                finite::not_finite::<B>(o.wide_list.clone())
            }),
            Self::new("unscale with check", LOW + F32, |o| {
                unscale::unscale::<B>(o.low_list.clone(), 0.5)
            }),
            Self::new("unscale on the device, f32", F32 + F32, |o| {
                let [state, after] = [(); 2].map(|()| o.state.clone());
                loss_scale::unscale_unless_overflowed::<B>(o.wide.clone(), state, after)
            }),
            Self::new("GELU", LOW + LOW, |o| {
                activation::forward::<B>(o.x.clone(), Activation::Gelu, o.x.dtype().into())
            }),
            Self::new("GELU backward", 2 * LOW + LOW, |o| {
                activation::backward::<B>(o.x.clone(), o.grad.clone(), Activation::Gelu)
            }),
            Self::new("sigmoid to f32", LOW + F32, |o| {
                activation::forward::<B>(o.x.clone(), Activation::Sigmoid, FloatDType::F32)
            }),
            Self::new("sigmoid backward", LOW + F32 + LOW, |o| {
                activation::backward::<B>(o.x.clone(), o.wide.clone(), Activation::Sigmoid)
            }),
            Self::new("concatenation of 4", 4 * (LOW + LOW), |o| {
                cat::cat::<B>(vec![o.x.clone(); 4], 1)
            }),
        ]
    }

    fn of_rows() -> Vec<Self> {
        vec![
            Self::new("softmax", LOW + LOW, |o| {
                softmax::forward::<B>(o.x.clone(), 1, ScaleMask::none())
            }),
            Self::new("softmax backward", 2 * LOW + LOW, |o| {
                let (output, grad) = (o.softmax.clone(), o.grad.clone());
                softmax::backward::<B>(output, grad, 1, ScaleMask::none())
            }),
            Self::new("log-softmax to f32", LOW + F32, |o| {
                log_softmax::forward::<B>(o.x.clone(), 1, FloatDType::F32)
            }),
            Self::new("log-softmax backward", LOW + F32 + LOW, |o| {
                let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                log_softmax::backward::<B>(x, statistics, o.wide.clone(), 1)
            }),
            Self::new("cross entropy backward", LOW + LOW, |o| {
                let (x, statistics) = (o.x.clone(), o.log_sum_exp.clone());
                let (targets, grad) = (o.targets.clone(), o.grad_of_rows.clone());
                cross_entropy::backward::<B>(x, statistics, targets, grad)
            }),
            Self::new("layer norm", LOW + LOW, |o| {
                let (x, gamma, beta) = (o.x.clone(), o.gamma.clone(), o.gamma.clone());
                layer_norm::forward::<B>(x, gamma, Some(beta), 1e-5, None)
            }),
            Self::new("layer norm of f32, with a copy", F32 + F32 + LOW, |o| {
                let (x, gamma, beta) = (o.wide.clone(), o.gamma.clone(), o.gamma.clone());
                layer_norm::forward::<B>(x, gamma, Some(beta), 1e-5, Some(o.x.dtype().into()))
            }),
            Self::new("column sums", LOW, |o| {
                weight_product::column_sums::<B>(o.x.clone())
            }),
            Self::new("layer norm backward", 2 * LOW + LOW, |o| {
                let (x, gamma, grad) = (o.x.clone(), o.gamma.clone(), o.grad.clone());
                let (mean, inverse_std) = (o.mean.clone(), o.inverse_std.clone());
                layer_norm::backward::<B>(x, gamma, mean, inverse_std, grad)
            }),
        ]
    }
}
