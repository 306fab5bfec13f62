//! Clipping of unscaled gradients, all parameters together.

use burn::{
    module::AutodiffModule,
    optim::GradientsParams,
    tensor::{
        Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_core::Precision;
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps};

use super::gradients::{each, replace_each};
use burn_amp_decorator::{
    optimizer::{Clipping, norm_factor},
    precision,
};

/// Returns the L2 norm of all gradients of a model together: one F32 element, on the device of the first gradient.
///
/// `None` if there are no gradients. Incurs no device-to-host read.
#[doc(alias = "get_total_norm")]
pub fn global_norm<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    model: &M,
) -> Option<Tensor<B::InnerBackend, 1>> {
    let mut sum = None;
    each::<B, M>(grads, model, |_, grad| {
        let grad = precision::cast::<B::InnerBackend>(grad, Precision::F32);
        let squares = B::InnerBackend::float_powi_scalar(grad, 2.into());
        add(&mut sum, B::InnerBackend::float_sum(squares));
    });
    sum.map(Tensor::sqrt)
}

/// Adds a number to a sum, on the device of the first.
fn add<B: Backend>(sum: &mut Option<Tensor<B, 1>>, number: B::FloatTensorPrimitive) {
    let number = Tensor::from_primitive(TensorPrimitive::Float(number));
    *sum = Some(match sum.take() {
        Some(sum) => {
            let number = Tensor::to_device(number, &sum.device());
            sum + number
        }
        None => number,
    });
}

/// Clips the unscaled gradients of a model. Returns their global norm before clipping, if clipping needs it.
///
/// Incurs no device-to-host read. Gradients that are not finite, which exist only without loss scaling, all become 0 or
/// NaN when they are clipped by norm, as in PyTorch.
#[doc(alias("clip_grad_norm_", "clip_grad_value_"))]
pub fn clip<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &mut GradientsParams,
    model: &M,
    clipping: Clipping,
) -> Option<Tensor<B::InnerBackend, 1>> {
    match clipping {
        Clipping::Value(max) => {
            replace_each::<B, M>(grads, model, |grad| {
                B::InnerBackend::float_clamp(grad, (-max).into(), max.into())
            });
            None
        }
        Clipping::GlobalNorm(max) => {
            let norm = global_norm::<B, M>(grads, model)?;
            let factor =
                norm_factor::<B::InnerBackend>(norm.clone().into_primitive().tensor(), max);
            replace_each::<B, M>(grads, model, |grad| {
                let device = B::InnerBackend::float_device(&grad);
                let factor = B::InnerBackend::float_to_device(factor.clone(), &device);
                let ones = Shape::from(vec![1; grad.rank()]);
                let factor = B::InnerBackend::float_reshape(factor, ones);
                let grad = precision::cast::<B::InnerBackend>(grad, Precision::F32);
                B::InnerBackend::float_mul(grad, factor)
            });
            Some(norm)
        }
    }
}
