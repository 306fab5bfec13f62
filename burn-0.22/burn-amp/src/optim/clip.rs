//! Clipping of gradients, all parameters together.

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{DType, Tensor},
};
use burn_amp_decorator::optimizer::Clipping;

/// Returns the L2 norm of all gradients of a model together: one F32 element, on the device of the first gradient.
///
/// `None` if there are no gradients, as after an overflow. Incurs no device-to-host read.
#[doc(alias = "get_total_norm")]
pub fn global_norm<M: Module>(gradients: &GradientsParams, model: &M) -> Option<Tensor<1>> {
    let mut squares = Squares {
        gradients,
        sum: None,
    };
    model.visit(&mut squares);
    squares.sum.map(Tensor::sqrt)
}

/// Clips the gradients of a model. Returns their global norm before clipping, if clipping needs it.
///
/// Incurs no device-to-host read.
#[doc(alias("clip_grad_norm_", "clip_grad_value_"))]
pub fn clip<M: Module>(
    gradients: &mut GradientsParams,
    model: &M,
    clipping: Clipping,
) -> Option<Tensor<1>> {
    let (change, norm) = match clipping {
        Clipping::Value(max) => (Change::Clamp(max), None),
        Clipping::GlobalNorm(max) => {
            let norm = global_norm(gradients, model)?;
            let factor = (norm.clone() + 1e-6).recip().mul_scalar(max).clamp_max(1.0);
            (Change::Scale(factor), Some(norm))
        }
    };
    model.visit(&mut Changed { gradients, change });
    norm
}

/// Adds up the squares of gradients.
struct Squares<'a> {
    gradients: &'a GradientsParams,
    sum: Option<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            let squares = gradient.cast(DType::F32).square().sum();
            self.sum = Some(match self.sum.take() {
                Some(sum) => {
                    let device = sum.device();
                    sum + squares.to_device(&device)
                }
                None => squares,
            });
        }
    }
}

enum Change {
    Clamp(f32),
    Scale(Tensor<1>),
}

/// Changes gradients.
struct Changed<'a> {
    gradients: &'a mut GradientsParams,
    change: Change,
}

impl ModuleVisitor for Changed<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let gradient = match &self.change {
                Change::Clamp(max) => gradient.clamp(-max, *max),
                Change::Scale(factor) => {
                    let factor = factor.clone().to_device(&gradient.device());
                    gradient.cast(DType::F32) * factor.reshape([1; D])
                }
            };
            self.gradients.register(param.id, gradient);
        }
    }
}
