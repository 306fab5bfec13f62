//! [`AutodiffTensor`]: a tensor in a graph.

use std::{any::Any, fmt, sync::Arc};

use burn_amp_decorator::{AmpTensor, Facts, Tape, optimizer::erased};
use burn_autodiff_engine::{
    Autodiff as Recorded, NodeId, chosen::Chosen, grads::Gradients, ops::NodeGuard,
};
use burn_backend::{
    AutodiffBackend, Backend, BackendTypes, DType, Shape, TensorMetadata,
    distributed::DistributedParamId, tensor::FloatTensor,
};

use crate::{
    backend::{Amped, Autodiff},
    known::Known,
};

/// The tensor as burn-amp has it.
pub(crate) type Tracked<B> = AmpTensor<Known<B>, Tape<Chosen>>;

/// A tensor in a graph, which may be stored in low precision. Whoever takes the primitive gets it in the dtype that the
/// program sees.
///
/// burn-dispatch names the type for whatever has the types of a backend. What burn-amp knows of a tensor is of a backend, so
/// its type is not named here.
pub struct AutodiffTensor<B: BackendTypes> {
    inner: FloatTensor<Recorded<Known<B>, Chosen>>,
    facts: Arc<dyn OfBackend>,
}

/// What burn-amp knows of a tensor of some backend.
trait OfBackend: Any + Send + Sync {
    fn dtype(&self) -> DType;

    /// The shape of a tensor that is not computed yet.
    fn shape(&self) -> Option<Shape>;

    fn has_forms(&self) -> bool;
}

impl<B: Backend> OfBackend for Facts<Known<B>> {
    fn dtype(&self) -> DType {
        self.logical_dtype()
    }

    fn shape(&self) -> Option<Shape> {
        self.shape_to_be::<Tape<Chosen>>()
    }

    fn has_forms(&self) -> bool {
        self.has_forms()
    }
}

impl<B: BackendTypes> Clone for AutodiffTensor<B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            facts: self.facts.clone(),
        }
    }
}

impl<B: BackendTypes> fmt::Debug for AutodiffTensor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutodiffTensor")
            .field("shape", &self.shape())
            .field("dtype", &self.dtype())
            .finish_non_exhaustive()
    }
}

impl<B: BackendTypes> TensorMetadata for AutodiffTensor<B> {
    type Device = B::Device;

    fn dtype(&self) -> DType {
        self.facts.dtype()
    }

    fn shape(&self) -> Shape {
        self.facts.shape().unwrap_or_else(|| self.inner.shape())
    }

    fn device(&self) -> B::Device {
        self.inner.device()
    }

    fn can_mut(&self) -> bool {
        !self.facts.has_forms() && self.inner.can_mut()
    }
}

impl<B: Backend> AutodiffTensor<B> {
    #[inline(always)]
    pub(crate) fn of(tensor: Tracked<B>) -> Self {
        let (inner, facts) = tensor.into_values_and_facts();
        Self { inner, facts }
    }

    #[inline(always)]
    pub(crate) fn tracked(self) -> Tracked<B> {
        let facts: Arc<dyn Any + Send + Sync> = self.facts;
        let facts = facts
            .downcast()
            .expect("each backend has one type of tensor");
        AmpTensor::of_values_and_facts(self.inner, facts)
    }

    /// Wraps a tensor that is in no graph yet.
    pub fn new(tensor: FloatTensor<B>) -> Self {
        Autodiff::<B>::from_inner(tensor)
    }

    /// Whether ops on the tensor are recorded.
    pub fn is_tracked(&self) -> bool {
        self.clone().tracked().is_tracked()
    }

    /// Marks the tensor as one that requires a gradient.
    pub fn require_grad(self) -> Self {
        <Autodiff<B> as burn_backend::ops::FloatTensorOps<_>>::float_set_require_grad(self, true)
    }

    /// Marks the tensor as one whose gradient the devices of a run add up.
    pub fn grad_distributed(self, id: DistributedParamId) -> Self {
        Autodiff::<B>::set_distributed_params(self, id)
    }

    /// Returns the values. burn-dispatch takes a tensor out of its graph so.
    pub fn into_primitive(self) -> FloatTensor<B> {
        let tensor = self.tracked();
        erased::leaves(|| (Amped::<B>::inner(tensor.clone()), tensor.passes()));
        tensor.into_primitive()
    }

    /// Returns the values and the node.
    pub fn into_parts(self) -> (FloatTensor<B>, NodeGuard) {
        self.tracked().into_parts()
    }

    /// Returns the node in the graph, which is kept as long as the guard.
    pub fn node(&self) -> NodeGuard {
        self.clone().tracked().node()
    }

    /// Returns the number of the node.
    pub fn id(&self) -> NodeId {
        self.clone().tracked().id()
    }

    /// Runs a backward pass.
    pub fn backward(self) -> Gradients {
        Autodiff::<B>::backward(self)
    }

    /// Returns the gradient of the tensor.
    pub fn grad(&self, grads: &Gradients) -> Option<FloatTensor<B>> {
        Autodiff::<B>::grad(self, grads)
    }

    /// Takes the gradient of the tensor.
    pub fn grad_remove(&self, grads: &mut Gradients) -> Option<FloatTensor<B>> {
        Autodiff::<B>::grad_remove(self, grads)
    }

    /// Replaces the gradient of the tensor.
    pub fn grad_replace(&self, grads: &mut Gradients, grad: FloatTensor<B>) {
        Autodiff::<B>::grad_replace(self, grads, grad);
    }
}
