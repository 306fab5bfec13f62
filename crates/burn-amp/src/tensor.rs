//! The float tensor of [`Amp`]: what is stored, and what the model sees.

use std::{fmt, sync::Arc};

use burn::tensor::Tensor;
use burn_amp_core::Dtype;
use burn_backend::{
    Backend, DType, Shape, TensorMetadata, TensorPrimitive, ops::FloatTensorOps,
    tensor::FloatTensor,
};

use crate::{
    context::Context,
    dtype,
    graph::{AmpBackend, Graph, NoGraph},
    leaf::{Leaf, Origin},
};

/// A float tensor of the inner backend and what burn-amp knows about it.
///
/// Its dtype, and all data read from it, is the *logical* dtype: the one that the tensor would have without burn-amp.
/// The policy moves the *storage* dtype only.
pub struct AmpTensor<B: Backend, G: Graph<B> = NoGraph> {
    /// The tensor in its storage dtype.
    pub(crate) inner: FloatTensor<G::Inner>,
    pub(crate) logical: Dtype,
    /// Whether this is a gradient that was handed out, or computed from one: no op on it is lowered.
    pub(crate) exact: bool,
    /// The policy and loss scale of the device it lives on.
    pub(crate) context: &'static Context<B>,
    /// Set on tensors that require a gradient themselves.
    pub(crate) leaf: Option<Arc<Leaf<B>>>,
    /// Set on parameters and on their copies: detached, or on another device.
    pub(crate) origin: Option<Arc<Origin>>,
}

impl<B: Backend, G: Graph<B>> AmpTensor<B, G> {
    /// A tensor whose logical dtype is its storage dtype.
    pub(crate) fn new(inner: FloatTensor<G::Inner>, context: &'static Context<B>) -> Self {
        let logical = dtype::of(&inner);
        Self {
            inner,
            logical,
            exact: false,
            context,
            leaf: None,
            origin: None,
        }
    }

    /// The tensor, in the books if it requires a gradient itself, and out of them if not.
    pub(crate) fn enrolled(mut self) -> Self {
        match G::Inner::float_is_require_grad(&self.inner) {
            true if self.leaf.is_some() => {}
            true => {
                let origin = self.origin.take().unwrap_or_default();
                self.leaf = G::enroll(&self.inner, origin.clone(), self.context);
                self.origin = Some(origin);
            }
            false => self.leaf = None,
        }
        self
    }

    /// The dtype in which the values are stored.
    pub fn storage_dtype(&self) -> DType {
        self.inner.dtype()
    }

    /// The tensor of the inner backend, cast to the logical dtype: what the plain backend would hold.
    ///
    /// For custom ops that have no row in the policy.
    pub fn into_inner(self) -> FloatTensor<G::Inner> {
        dtype::cast::<G::Inner>(self.inner, self.logical)
    }
}

impl<B: Backend, G: Graph<B>> Clone for AmpTensor<B, G> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            logical: self.logical,
            exact: self.exact,
            context: self.context,
            leaf: self.leaf.clone(),
            origin: self.origin.clone(),
        }
    }
}

impl<B: Backend, G: Graph<B>> fmt::Debug for AmpTensor<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpTensor")
            .field("inner", &self.inner)
            .field("logical", &self.logical)
            .field("exact", &self.exact)
            .finish_non_exhaustive()
    }
}

impl<B: Backend, G: Graph<B>> TensorMetadata for AmpTensor<B, G> {
    fn dtype(&self) -> DType {
        dtype::to_burn(self.logical)
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn rank(&self) -> usize {
        self.inner.rank()
    }
}

/// The dtype in which a tensor's values are stored; `tensor.dtype()` is the logical one.
pub fn storage_dtype<A: AmpBackend, const D: usize>(tensor: &Tensor<A, D>) -> DType {
    match tensor.clone().into_primitive() {
        TensorPrimitive::Float(tensor) => tensor.storage_dtype(),
        TensorPrimitive::QFloat(tensor) => tensor.dtype(),
    }
}
