//! Clipping of unscaled gradients, all parameters together.

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{
        DType, Tensor,
        backend::{AutodiffBackend, Backend},
    },
};

/// A way to clip the gradients of all parameters.
///
/// It differs from Burn's own `GradientClipping::Norm`, which clips the norm of each parameter's gradient separately.
#[doc(alias("clip_grad_norm_", "clip_grad_value_"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clipping {
    /// Clamps each element to at most this magnitude.
    Value(f32),
    /// Multiplies all gradients by one factor, `min(1, max / (norm + 1e-6))`, so that their common L2 norm is at most
    /// `max`, as PyTorch's `clip_grad_norm_` does.
    GlobalNorm(f32),
}

/// Returns the L2 norm of all gradients of a model together: one F32 element, on the device of the first gradient.
///
/// `None` if there are no gradients. Incurs no device-to-host read.
#[doc(alias = "get_total_norm")]
pub fn global_norm<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    model: &M,
) -> Option<Tensor<B::InnerBackend, 1>> {
    let mut squares = SumOfSquares::<B> { grads, sum: None };
    model.visit(&mut squares);
    squares.sum.map(Tensor::sqrt)
}

/// The sum of the squares of all gradients, in F32.
struct SumOfSquares<'a, B: AutodiffBackend> {
    grads: &'a GradientsParams,
    sum: Option<Tensor<B::InnerBackend, 1>>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for SumOfSquares<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(grad) = self.grads.get::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let squares = grad.cast(DType::F32).square().sum();
        self.sum = Some(match self.sum.take() {
            Some(sum) => {
                let squares = squares.to_device(&sum.device());
                sum + squares
            }
            None => squares,
        });
    }
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
            model.visit(&mut ClampEach { grads, max });
            None
        }
        Clipping::GlobalNorm(max) => {
            let norm = global_norm::<B, M>(grads, model)?;
            let factor = norm_factor(norm.clone(), max);
            model.visit(&mut ScaleAll::<B> { grads, factor });
            Some(norm)
        }
    }
}

/// Returns the factor that brings gradients of this norm to a norm of at most `max`.
pub(super) fn norm_factor<B: Backend>(norm: Tensor<B, 1>, max: f32) -> Tensor<B, 1> {
    (norm + 1e-6).recip().mul_scalar(max).clamp_max(1.0)
}

/// Clamps each element of each gradient to at most `max` in magnitude.
struct ClampEach<'a> {
    grads: &'a mut GradientsParams,
    max: f32,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for ClampEach<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) {
            let grad = grad.clamp(-self.max, self.max);
            self.grads.register(param.id, grad);
        }
    }
}

/// Multiplies all gradients by one factor, in F32.
struct ScaleAll<'a, B: AutodiffBackend> {
    grads: &'a mut GradientsParams,
    factor: Tensor<B::InnerBackend, 1>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for ScaleAll<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) {
            let factor = self.factor.clone().to_device(&grad.device());
            let scaled = grad.cast(DType::F32) * factor.reshape([1; D]);
            self.grads.register(param.id, scaled);
        }
    }
}
