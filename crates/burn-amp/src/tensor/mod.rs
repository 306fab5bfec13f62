//! The float tensor of [`Amp`](crate::Amp): the values, and what burn-amp knows about them.
//!
//! * [`rounded`]: results of saturating ops, with their F32 values within reach
//! * [`nature`]: whether a tensor is a parameter, a gradient, has values with a known property, or is none of these

mod nature;
mod rounded;

use std::{fmt, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_backend::{DType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

pub(crate) use nature::{LogSoftmaxOperand, Nature};
pub(crate) use rounded::{Rounded, Saturating};

use crate::{
    graph::{Graph, NoGraph, Origin},
    policy::Context,
    precision,
};

/// A float tensor of the inner backend, with what burn-amp knows about it.
///
/// Its `dtype()`, and the dtype of all data read from it, is the *logical* dtype: the one that the tensor would have
/// without burn-amp. The policy changes the *storage* dtype only.
pub struct AmpTensor<B: AmpBackend, G: Graph<B> = NoGraph> {
    /// The values in their storage dtype.
    pub(crate) inner: FloatTensor<G::Inner>,
    pub(crate) logical: Precision,
    /// The policy and the loss scale of the device that the values are on.
    pub(crate) context: &'static Context<B>,
    pub(crate) nature: Nature<B, G>,
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Wraps a tensor whose logical dtype is its storage dtype, and about which nothing else is known.
    pub(crate) fn new(inner: FloatTensor<G::Inner>, context: &'static Context<B>) -> Self {
        Self {
            logical: precision::of(&inner),
            inner,
            context,
            nature: Nature::Plain,
        }
    }

    /// Updates the nature after `require_grad` or `detach`: a tensor that requires a gradient itself becomes a leaf of
    /// the graph, and a leaf that no longer does becomes a parameter outside it.
    pub(crate) fn enrolled(mut self) -> Self {
        if G::Inner::float_is_require_grad(&self.inner) {
            if !matches!(self.nature, Nature::Leaf(_)) {
                let origin = self.nature.origin().cloned();
                let origin = origin.unwrap_or_else(|| Arc::new(Origin::default()));
                let checked = self.context.scales_losses();
                let leaf = G::enroll(&self.inner, origin, &self.context.leaves, checked);
                if let Some(leaf) = leaf {
                    self.nature = Nature::Leaf(leaf);
                }
            }
        } else if let Nature::Leaf(leaf) = self.nature {
            self.nature = Nature::Parameter(leaf.origin().clone());
        }
        self
    }

    /// The tensor with the F32 values of a [`Rounded`] result instead of the rounded ones.
    pub(crate) fn exact(self) -> Self {
        let inner = match &self.nature {
            Nature::Rounded(rounded) => rounded.exact(),
            Nature::Plain
            | Nature::Leaf(_)
            | Nature::Parameter(_)
            | Nature::Gradient(_)
            | Nature::ZerosAndOnes
            | Nature::LogSoftmax(_) => return self,
        };
        Self {
            inner,
            logical: self.logical,
            context: self.context,
            nature: Nature::Plain,
        }
    }

    /// The tensor stored in F32, or in F64 if it is.
    pub(crate) fn in_f32(self) -> Self {
        let exact = self.exact();
        let wide = precision::of(&exact.inner).join(Precision::F32);
        Self {
            inner: precision::cast::<G::Inner>(exact.inner, wide),
            logical: exact.logical.join(Precision::F32),
            context: exact.context,
            nature: exact.nature.after_cast(),
        }
    }

    /// Returns the dtype in which the values are stored.
    pub fn storage_dtype(&self) -> DType {
        self.inner.dtype()
    }

    /// Returns the tensor of the inner backend, cast to the logical dtype: the tensor as the plain backend would hold
    /// it.
    ///
    /// For ops outside the policy; [`Amp::custom_op`](crate::Amp::custom_op) runs an op under it.
    pub fn into_inner(self) -> FloatTensor<G::Inner> {
        let exact = self.exact();
        precision::cast::<G::Inner>(exact.inner, exact.logical)
    }
}

impl<B: AmpBackend, G: Graph<B>> Clone for AmpTensor<B, G> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            logical: self.logical,
            context: self.context,
            nature: self.nature.clone(),
        }
    }
}

impl<B: AmpBackend, G: Graph<B>> fmt::Debug for AmpTensor<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpTensor")
            .field("inner", &self.inner)
            .field("logical", &self.logical)
            .finish_non_exhaustive()
    }
}

impl<B: AmpBackend, G: Graph<B>> TensorMetadata for AmpTensor<B, G> {
    fn dtype(&self) -> DType {
        precision::to_burn(self.logical)
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn rank(&self) -> usize {
        self.inner.rank()
    }
}
