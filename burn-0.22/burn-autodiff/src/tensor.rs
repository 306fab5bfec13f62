//! [`AutodiffTensor`]: a tensor in a graph.

use std::{any::Any, fmt::Debug};

use burn_amp_decorator::{AmpTensor, Tape};
use burn_autodiff_engine::{NodeId, chosen::Chosen, grads::Gradients, ops::NodeGuard};
use burn_backend::{
    AutodiffBackend, Backend, BackendTypes, DType, Shape, TensorMetadata,
    distributed::DistributedParamId, tensor::FloatTensor,
};

use crate::{backend::Autodiff, known::Known};

/// The tensor as burn-amp has it.
pub(crate) type Tracked<B> = AmpTensor<Known<B>, Tape<Chosen>>;

/// A tensor in a graph, which may be stored in low precision. Whoever takes the primitive gets it in the dtype that the
/// program sees.
///
/// burn-dispatch names the type for whatever has the types of a backend, and burn-amp's tensor is one of a backend. So it is
/// behind a pointer.
pub struct AutodiffTensor<B: BackendTypes>(Box<dyn OfBackend<B>>);

/// A tensor of a backend, of which only the types are known.
trait OfBackend<B: BackendTypes>: Any + Debug + Send + Sync {
    fn dtype(&self) -> DType;
    fn shape(&self) -> Shape;
    fn device(&self) -> B::Device;
    fn can_mut(&self) -> bool;
    fn copied(&self) -> Box<dyn OfBackend<B>>;
}

impl<B: Backend> OfBackend<B> for Tracked<B> {
    fn dtype(&self) -> DType {
        TensorMetadata::dtype(self)
    }

    fn shape(&self) -> Shape {
        TensorMetadata::shape(self)
    }

    fn device(&self) -> B::Device {
        TensorMetadata::device(self)
    }

    fn can_mut(&self) -> bool {
        TensorMetadata::can_mut(self)
    }

    fn copied(&self) -> Box<dyn OfBackend<B>> {
        Box::new(self.clone())
    }
}

impl<B: BackendTypes> Clone for AutodiffTensor<B> {
    fn clone(&self) -> Self {
        Self(self.0.copied())
    }
}

impl<B: BackendTypes> Debug for AutodiffTensor<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<B: BackendTypes> TensorMetadata for AutodiffTensor<B> {
    type Device = B::Device;

    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn device(&self) -> B::Device {
        self.0.device()
    }

    fn can_mut(&self) -> bool {
        self.0.can_mut()
    }
}

impl<B: Backend> AutodiffTensor<B> {
    pub(crate) fn of(tensor: Tracked<B>) -> Self {
        Self(Box::new(tensor))
    }

    pub(crate) fn tracked(self) -> Tracked<B> {
        let tensor: Box<dyn Any> = self.0;
        *tensor
            .downcast()
            .expect("each backend has one type of tensor")
    }

    pub(crate) fn as_tracked(&self) -> &Tracked<B> {
        let tensor: &dyn Any = &*self.0;
        tensor
            .downcast_ref()
            .expect("each backend has one type of tensor")
    }

    pub(crate) fn as_tracked_mut(&mut self) -> &mut Tracked<B> {
        let tensor: &mut dyn Any = &mut *self.0;
        tensor
            .downcast_mut()
            .expect("each backend has one type of tensor")
    }

    /// Wraps a tensor that is in no graph yet.
    pub fn new(tensor: FloatTensor<B>) -> Self {
        Autodiff::<B>::from_inner(tensor)
    }

    /// Whether ops on the tensor are recorded.
    pub fn is_tracked(&self) -> bool {
        self.as_tracked().is_tracked()
    }

    /// Marks the tensor as one that requires a gradient.
    pub fn require_grad(self) -> Self {
        <Autodiff<B> as burn_backend::ops::FloatTensorOps<_>>::float_set_require_grad(self, true)
    }

    /// Marks the tensor as one whose gradient the devices of a run add up.
    pub fn grad_distributed(self, id: DistributedParamId) -> Self {
        Autodiff::<B>::set_distributed_params(self, id)
    }

    /// Returns the values.
    pub fn into_primitive(self) -> FloatTensor<B> {
        self.tracked().into_primitive()
    }

    /// Returns the values and the node.
    pub fn into_parts(self) -> (FloatTensor<B>, NodeGuard) {
        self.tracked().into_parts()
    }

    /// Returns the node in the graph, which is kept as long as the guard.
    pub fn node(&self) -> NodeGuard {
        self.as_tracked().node()
    }

    /// Returns the number of the node.
    pub fn id(&self) -> NodeId {
        self.as_tracked().id()
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
