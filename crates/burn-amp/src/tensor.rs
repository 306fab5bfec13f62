//! The float tensor of [`Amp`]: what is stored, and what the model sees.

use std::{fmt, sync::Arc};

use burn::tensor::Tensor;
use burn_amp_core::Dtype;
use burn_amp_kernels::Kernels;
use burn_backend::{
    DType, Shape, TensorMetadata, TensorPrimitive, ops::FloatTensorOps, tensor::FloatTensor,
};

use crate::{
    context::Context,
    deferred::Passes,
    dtype,
    graph::{AmpBackend, Graph, NoGraph},
    leaf::Leaf,
    origin::Origin,
};

/// A float tensor of the inner backend and what burn-amp knows about it.
///
/// Its dtype, and all data read from it, is the *logical* dtype: the one that the tensor would have without burn-amp.
/// The policy moves the *storage* dtype only.
pub struct AmpTensor<B: Kernels, G: Graph<B> = NoGraph> {
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
    /// The backward passes whose gradient it is, or is computed from, if the host does not know their outcome.
    pub(crate) passes: Passes<B>,
    /// What is known of the values; not so of any result of an op.
    pub(crate) known: Option<Box<Known<B, G>>>,
}

/// What is known of a tensor's values.
pub(crate) enum Known<B: Kernels, G: Graph<B>> {
    /// Each is 0 or 1, which every dtype holds.
    ZerosAndOnes,
    /// They are the log-softmax of `x` along the last dimension.
    LogSoftmax {
        x: FloatTensor<G::Inner>,
        log_sum_exp: FloatTensor<G::Inner>,
    },
}

impl<B: Kernels, G: Graph<B>> Clone for Known<B, G> {
    fn clone(&self) -> Self {
        match self {
            Self::ZerosAndOnes => Self::ZerosAndOnes,
            Self::LogSoftmax { x, log_sum_exp } => Self::LogSoftmax {
                x: x.clone(),
                log_sum_exp: log_sum_exp.clone(),
            },
        }
    }
}

impl<B: Kernels, G: Graph<B>> AmpTensor<B, G> {
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
            passes: Passes::none(),
            known: None,
        }
    }

    /// An F32 tensor in the dtype of `other` where that is low. Loses nothing if all values are 0 or 1.
    pub(crate) fn lowered_to(self, other: &Self) -> Self {
        let (from, to) = (dtype::of(&self.inner), dtype::of(&other.inner));
        match from == Dtype::F32 && to.is_low() {
            true => Self {
                inner: dtype::cast::<G::Inner>(self.inner, to),
                ..self
            },
            false => self,
        }
    }

    /// The tensor, in the books if it requires a gradient itself, and out of them if not.
    pub(crate) fn enrolled(mut self) -> Self {
        match G::Inner::float_is_require_grad(&self.inner) {
            true if self.leaf.is_some() => {}
            true => {
                self.leaf = G::enroll(&self.inner, self.context);
                self.origin.get_or_insert_default();
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

impl<B: Kernels, G: Graph<B>> Clone for AmpTensor<B, G> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            logical: self.logical,
            exact: self.exact,
            context: self.context,
            leaf: self.leaf.clone(),
            origin: self.origin.clone(),
            passes: self.passes.clone(),
            known: self.known.clone(),
        }
    }
}

impl<B: Kernels, G: Graph<B>> fmt::Debug for AmpTensor<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpTensor")
            .field("inner", &self.inner)
            .field("logical", &self.logical)
            .field("exact", &self.exact)
            .finish_non_exhaustive()
    }
}

impl<B: Kernels, G: Graph<B>> TensorMetadata for AmpTensor<B, G> {
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
