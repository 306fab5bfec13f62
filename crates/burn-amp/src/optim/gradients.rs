//! The gradients of a model, one after the other.

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_decorator::{Amped, Trains, internal};
use burn_backend::tensor::FloatTensor;

/// A gradient of a model for training on `B`.
pub(super) type Gradient<B> = FloatTensor<<B as AutodiffBackend>::InnerBackend>;

/// Passes each parameter of a model that has a gradient on, with its gradient.
pub(super) fn each<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &GradientsParams,
    model: &M,
    take: impl FnMut(FloatTensor<B>, Gradient<B>),
) {
    model.visit(&mut Each { grads, take });
}

/// Replaces each gradient of a model.
pub(super) fn replace_each<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: &mut GradientsParams,
    model: &M,
    by: impl FnMut(Gradient<B>) -> Gradient<B>,
) {
    model.visit(&mut ReplaceEach { grads, by });
}

struct Each<'a, F> {
    grads: &'a GradientsParams,
    take: F,
}

impl<B: AutodiffBackend, F: FnMut(FloatTensor<B>, Gradient<B>)> ModuleVisitor<B> for Each<'_, F> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(grad) = self.grads.get::<B::InnerBackend, D>(param.id) {
            let parameter = param.val().into_primitive().tensor();
            (self.take)(parameter, grad.into_primitive().tensor());
        }
    }
}

struct ReplaceEach<'a, F> {
    grads: &'a mut GradientsParams,
    by: F,
}

impl<B: AutodiffBackend, F: FnMut(Gradient<B>) -> Gradient<B>> ModuleVisitor<B>
    for ReplaceEach<'_, F>
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) {
            let grad = (self.by)(grad.into_primitive().tensor());
            let grad = Tensor::<B::InnerBackend, D>::from_primitive(TensorPrimitive::Float(grad));
            self.grads.register(param.id, grad);
        }
    }
}

/// Makes the parameters of a model one graph, before its ops do so one by one.
pub(super) fn join_graphs<B: Amped + Trains, M: AutodiffModule<B>>(model: &M) {
    let mut nodes = Nodes::<B>(Vec::new());
    model.visit(&mut nodes);
    internal::join_graphs::<B::Plain>(&nodes.0);
}

/// The nodes of parameters.
struct Nodes<B: Amped>(Vec<FloatTensor<burn_autodiff::Autodiff<B::Plain>>>);

impl<B: Amped + Trains> ModuleVisitor<B> for Nodes<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let parameter = param.val().into_primitive().tensor();
        self.0.extend(parameter.handle());
    }
}
