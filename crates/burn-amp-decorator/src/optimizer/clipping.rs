//! Clipping by the global norm without reading a gradient twice: the norm is one op over all gradients, and the factor
//! waits in each of them for the step.

use std::sync::Arc;

use burn_amp_kernels::{self as kernels, AmpBackend, names::device_of, squares::Squares};
use burn_backend::{
    Backend,
    tensor::{Device, FloatTensor},
};

use crate::{loss_scale::DeferredPass, tensor::AmpTensor};

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

/// Returns the L2 norm of all gradients together, as one F32 element on the device of the first; `None` if there are none.
pub fn norm<B: AmpBackend>(
    gradients: impl IntoIterator<Item = AmpTensor<B>>,
) -> Option<FloatTensor<B>> {
    let mut lists: Vec<GradientList<B>> = Vec::new();
    for gradient in gradients {
        let (values, factors) = gradient.unclipped().into_unscaled();
        let device = device_of::<B>(&values);
        let pass = factors.pass.as_ref().map(Arc::as_ptr);
        let tensor = (values, factors.unscale);
        match lists.iter_mut().find(|list| list.takes(&device, pass)) {
            Some(list) => list.tensors.push(tensor),
            None => lists.push(GradientList {
                device,
                pass: factors.pass,
                tensors: vec![tensor],
            }),
        }
    }
    let first = lists.first()?.device.clone();
    let sums = lists
        .into_iter()
        .map(|list| B::float_to_device(kernels::squares::sum::<B>(list.squares()), &first));
    sums.reduce(B::float_add).map(B::float_sqrt)
}

/// Returns the factor that brings gradients of this norm to a norm of at most `max`.
pub fn norm_factor<B: Backend>(norm: FloatTensor<B>, max: f32) -> FloatTensor<B> {
    let inverse = B::float_recip(B::float_add_scalar(norm, 1e-6.into()));
    B::float_clamp_max(B::float_mul_scalar(inverse, max.into()), 1.0.into())
}

/// Gradients of one device and one backward pass.
struct GradientList<B: AmpBackend> {
    device: Device<B>,
    pass: Option<Arc<DeferredPass<B>>>,
    tensors: Vec<(FloatTensor<B>, f32)>,
}

impl<B: AmpBackend> GradientList<B> {
    fn takes(&self, device: &Device<B>, pass: Option<*const DeferredPass<B>>) -> bool {
        self.device == *device && self.pass.as_ref().map(Arc::as_ptr) == pass
    }

    fn squares(self) -> Squares<B> {
        let here = |state: &FloatTensor<B>| B::float_to_device(state.clone(), &self.device);
        Squares {
            scaled_by: self
                .pass
                .map(|pass| [here(&pass.before), here(&pass.after)]),
            tensors: self.tensors,
        }
    }
}
