//! Clipping by the global norm without reading a gradient twice: the norm is one op over all gradients, and the factor
//! waits in each of them for the step.

use std::sync::Arc;

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_kernels::{self as kernels, AmpBackend, squares::Squares};
use burn_backend::{
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};

use super::{super::clip::norm_factor, PlainOf};
use crate::{backend::Amped, graph::NoGraph, loss_scale::DeferredPass};

/// Returns the L2 norm of all gradients together, as one F32 element on the device of the first; `None` if there are none.
pub(in crate::optim) fn norm<B, M>(
    grads: &GradientsParams,
    module: &M,
) -> Option<Tensor<PlainOf<B>, 1>>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    M: AutodiffModule<B>,
{
    let mut collect = CollectLists::<B> {
        grads,
        lists: Vec::new(),
    };
    module.visit(&mut collect);
    let mut sum: Option<Tensor<PlainOf<B>, 1>> = None;
    for list in collect.lists {
        let squares = kernels::squares::sum::<PlainOf<B>>(list.squares());
        let squares = Tensor::from_primitive(TensorPrimitive::Float(squares));
        sum = Some(match sum {
            Some(sum) => {
                let squares = Tensor::to_device(squares, &sum.device());
                sum + squares
            }
            None => squares,
        });
    }
    sum.map(Tensor::sqrt)
}

/// Clips all gradients together to a norm of at most `max`; returns their norm before.
pub(in crate::optim) fn clip<B, M>(
    grads: &mut GradientsParams,
    module: &M,
    max: f32,
) -> Option<Tensor<PlainOf<B>, 1>>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    M: AutodiffModule<B>,
{
    let norm = norm::<B, M>(grads, module)?;
    let factor = norm_factor(norm.clone(), max);
    let factor = Arc::new(factor.into_primitive().tensor());
    module.visit(&mut Postpone::<B> { grads, factor });
    Some(norm)
}

/// Gradients of one device and one backward pass.
struct GradientList<P: AmpBackend> {
    device: Device<P>,
    pass: Option<Arc<DeferredPass<P>>>,
    tensors: Vec<(FloatTensor<P>, f32)>,
}

impl<P: AmpBackend> GradientList<P> {
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

struct CollectLists<'a, B: AutodiffBackend<InnerBackend: Amped>> {
    grads: &'a GradientsParams,
    lists: Vec<GradientList<PlainOf<B>>>,
}

impl<B> ModuleVisitor<B> for CollectLists<'_, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(grad) = self.grads.get::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let grad = grad.into_primitive().tensor();
        let (values, factors) = grad.unclipped().into_unscaled();
        let device = PlainOf::<B>::float_device(&values);
        let pass = factors.pass.as_ref().map(Arc::as_ptr);
        let list = self
            .lists
            .iter_mut()
            .find(|list| list.device == device && list.pass.as_ref().map(Arc::as_ptr) == pass);
        let tensor = (values, factors.unscale);
        match list {
            Some(list) => list.tensors.push(tensor),
            None => self.lists.push(GradientList {
                device,
                pass: factors.pass,
                tensors: vec![tensor],
            }),
        }
    }
}

/// Leaves the multiplication with a factor to the readers of the gradients.
struct Postpone<'a, B: AutodiffBackend<InnerBackend: Amped>> {
    grads: &'a mut GradientsParams,
    factor: Arc<FloatTensor<PlainOf<B>>>,
}

impl<B> ModuleVisitor<B> for Postpone<'_, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let grad = grad.into_primitive().tensor();
        let grad = grad.clipped_by(self.factor.clone());
        let grad = Tensor::<B::InnerBackend, D>::from_primitive(TensorPrimitive::Float(grad));
        self.grads.register(param.id, grad);
    }
}
