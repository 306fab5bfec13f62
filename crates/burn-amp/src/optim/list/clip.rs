//! Clipping by the global norm without reading a gradient twice: the norm is one op over all gradients, and the factor
//! waits in each of them for the step.

use std::sync::Arc;

use burn::{module::AutodiffModule, optim::GradientsParams, tensor::Tensor};
use burn_amp_kernels::{self as kernels, AmpBackend, squares::Squares};
use burn_backend::{
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};

use super::{
    super::{
        clip::{add, norm_factor},
        gradients::{each, replace_each},
    },
    PlainOf,
};
use burn_amp_decorator::{Trains, internal::DeferredPass};

/// Returns the L2 norm of all gradients together, as one F32 element on the device of the first; `None` if there are none.
pub(in crate::optim) fn norm<B: Trains, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    module: &M,
) -> Option<Tensor<PlainOf<B>, 1>> {
    let mut lists: Vec<GradientList<PlainOf<B>>> = Vec::new();
    each::<B, M>(grads, module, |_, grad| {
        let (values, factors) = grad.unclipped().into_unscaled();
        let device = PlainOf::<B>::float_device(&values);
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
    });
    let mut sum = None;
    for list in lists {
        add(
            &mut sum,
            kernels::squares::sum::<PlainOf<B>>(list.squares()),
        );
    }
    sum.map(Tensor::sqrt)
}

/// Clips all gradients together to a norm of at most `max`; returns their norm before.
pub(in crate::optim) fn clip<B: Trains, M: AutodiffModule<B>>(
    grads: &mut GradientsParams,
    module: &M,
    max: f32,
) -> Option<Tensor<PlainOf<B>, 1>> {
    let norm = norm::<B, M>(grads, module)?;
    let factor = norm_factor(norm.clone(), max);
    let factor = Arc::new(factor.into_primitive().tensor());
    // The multiplication is left to the readers of the gradients.
    replace_each::<B, M>(grads, module, |grad| grad.clipped_by(factor.clone()));
    Some(norm)
}

/// Gradients of one device and one backward pass.
struct GradientList<P: AmpBackend> {
    device: Device<P>,
    pass: Option<Arc<DeferredPass<P>>>,
    tensors: Vec<(FloatTensor<P>, f32)>,
}

impl<P: AmpBackend> GradientList<P> {
    fn takes(&self, device: &Device<P>, pass: Option<*const DeferredPass<P>>) -> bool {
        self.device == *device && self.pass.as_ref().map(Arc::as_ptr) == pass
    }

    fn squares(self) -> Squares<P> {
        let here = |state: &FloatTensor<P>| P::float_to_device(state.clone(), &self.device);
        Squares {
            scaled_by: self
                .pass
                .map(|pass| [here(&pass.before), here(&pass.after)]),
            tensors: self.tensors,
        }
    }
}
