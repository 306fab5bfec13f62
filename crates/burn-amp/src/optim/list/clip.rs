//! Clipping of the gradients of a model by their global norm, which is one op over all of them.

use std::sync::Arc;

use burn::{
    module::AutodiffModule,
    optim::GradientsParams,
    tensor::{Tensor, TensorPrimitive},
};
use burn_backend::tensor::FloatTensor;

use super::{
    super::gradients::{each, replace_each},
    PlainOf,
};
use burn_amp_decorator::{Trains, optimizer};

/// Returns the L2 norm of all gradients together, as one F32 element on the device of the first; `None` if there are none.
pub(in crate::optim) fn norm<B: Trains, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    module: &M,
) -> Option<Tensor<PlainOf<B>, 1>> {
    plain_norm::<B, M>(grads, module).map(number::<B>)
}

/// Clips all gradients together to a norm of at most `max`; returns their norm before.
pub(in crate::optim) fn clip<B: Trains, M: AutodiffModule<B>>(
    grads: &mut GradientsParams,
    module: &M,
    max: f32,
) -> Option<Tensor<PlainOf<B>, 1>> {
    let norm = plain_norm::<B, M>(grads, module)?;
    let factor = Arc::new(optimizer::norm_factor::<PlainOf<B>>(norm.clone(), max));
    // The multiplication is left to the readers of the gradients.
    replace_each::<B, M>(grads, module, |grad| grad.clipped_by(factor.clone()));
    Some(number::<B>(norm))
}

fn plain_norm<B: Trains, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    module: &M,
) -> Option<FloatTensor<PlainOf<B>>> {
    let mut gradients = Vec::new();
    each::<B, M>(grads, module, |_, grad| gradients.push(grad));
    optimizer::norm(gradients)
}

fn number<B: Trains>(norm: FloatTensor<PlainOf<B>>) -> Tensor<PlainOf<B>, 1> {
    Tensor::from_primitive(TensorPrimitive::Float(norm))
}
