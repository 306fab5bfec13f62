//! Clipping of unscaled gradients, all parameters together.

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{DType, Tensor, backend::AutodiffBackend},
};

/// How gradients are clipped.
///
/// Burn's own `GradientClipping::Norm` takes the norm of each parameter's gradient by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clipping {
    /// Each element to at most this magnitude.
    Value(f32),
    /// All gradients by one factor, so that their norm together is at most this: `min(1, max / (norm + 1e-6))`, as
    /// PyTorch's `clip_grad_norm_`.
    GlobalNorm(f32),
}

/// The L2 norm of all gradients of a model together: one F32 element on the device of the first of them.
///
/// `None` if there are no gradients. Incurs no device-to-host read.
pub fn global_norm<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    model: &M,
) -> Option<Tensor<B::InnerBackend, 1>> {
    global_norm_of::<B, M>(std::slice::from_ref(grads), model)
}

/// [`global_norm`] of gradients on several devices.
pub(super) fn global_norm_of<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &[GradientsParams],
    model: &M,
) -> Option<Tensor<B::InnerBackend, 1>> {
    struct SumOfSquares<'a, B: AutodiffBackend> {
        grads: &'a [GradientsParams],
        sum: Option<Tensor<B::InnerBackend, 1>>,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for SumOfSquares<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            for grads in self.grads {
                let Some(grad) = grads.get::<B::InnerBackend, D>(param.id) else {
                    continue;
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
    }

    let mut visitor = SumOfSquares::<B> { grads, sum: None };
    model.visit(&mut visitor);
    visitor.sum.map(Tensor::sqrt)
}

/// Clips the unscaled gradients of a model. Returns their global norm before, if it was needed.
///
/// Incurs no device-to-host read. With gradients that are not finite, which only a run without loss scaling hands out,
/// clipping by norm makes all of them 0 or NaN, as in PyTorch.
pub fn clip<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &mut GradientsParams,
    model: &M,
    clipping: Clipping,
) -> Option<Tensor<B::InnerBackend, 1>> {
    clip_all::<B, M>(std::slice::from_mut(grads), model, clipping)
}

/// [`clip`] of gradients on several devices.
pub(super) fn clip_all<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &mut [GradientsParams],
    model: &M,
    clipping: Clipping,
) -> Option<Tensor<B::InnerBackend, 1>> {
    match clipping {
        Clipping::Value(max) => {
            change::<B, M>(grads, model, Change::Clamp(max));
            None
        }
        Clipping::GlobalNorm(max) => {
            let norm = global_norm_of::<B, M>(grads, model)?;
            let factor = (norm.clone() + 1e-6).recip().mul_scalar(max).clamp_max(1.0);
            change::<B, M>(grads, model, Change::Scale(factor));
            Some(norm)
        }
    }
}

/// What is done to every gradient.
enum Change<B: AutodiffBackend> {
    Clamp(f32),
    Scale(Tensor<B::InnerBackend, 1>),
}

fn change<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &mut [GradientsParams],
    model: &M,
    change: Change<B>,
) {
    struct Apply<'a, B: AutodiffBackend> {
        grads: &'a mut [GradientsParams],
        change: Change<B>,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for Apply<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            for grads in &mut *self.grads {
                let Some(grad) = grads.remove::<B::InnerBackend, D>(param.id) else {
                    continue;
                };
                let grad = match &self.change {
                    Change::Clamp(max) => grad.clamp(-*max, *max),
                    Change::Scale(factor) => {
                        let factor = factor.clone().to_device(&grad.device());
                        grad.cast(DType::F32) * factor.reshape([1; D])
                    }
                };
                grads.register(param.id, grad);
            }
        }
    }

    model.visit(&mut Apply::<B> { grads, change });
}
