//! The float tensor of [`Amp`](crate::Amp): the values, and what burn-amp knows about them.
//!
//! * [`rounded`]: results stored in low precision, with their F32 values within reach
//! * [`product`]: products in F16, with their F32 values within reach
//! * [`lazy`]: chains of ops that have not been computed
//! * [`scores`]: scaled and masked products that have not been computed
//! * [`view`]: transpositions and reshapes that have not been computed
//! * [`pending`]: gradients whose factors have not been applied
//! * [`nature`]: whether a tensor is a parameter, a gradient, has values with a known property, or is none of these

mod lazy;
mod nature;
mod pending;
mod product;
mod rounded;
mod scores;
mod view;

use std::{fmt, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::{AmpBackend, made};
use burn_backend::{DType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

pub(crate) use lazy::Lazy;
pub(crate) use nature::{LogSoftmaxOperand, Nature};
pub(crate) use pending::{Factors, Pending, times};
pub(crate) use product::Product;
pub(crate) use rounded::{Rounded, Saturating};
pub(crate) use scores::Scores;

use crate::{
    graph::{Graph, NoGraph, Origin, Recorded},
    policy::Context,
    precision,
};

/// A float tensor of the inner backend, with what burn-amp knows about it.
///
/// Its `dtype()`, and the dtype of all data read from it, is the *logical* dtype: the one that the tensor would have
/// without burn-amp. The policy changes the *storage* dtype only.
pub struct AmpTensor<B: AmpBackend, G: Graph<B> = NoGraph> {
    /// The values in their storage dtype; those of the low tensor if the nature is lazy.
    pub(crate) inner: FloatTensor<G::Inner>,
    pub(crate) logical: Precision,
    /// The policy and the loss scale of the device that the values are on.
    pub(crate) context: &'static Context<B>,
    pub(crate) nature: Nature<B, G>,
    pub(crate) recorded: Recorded<B>,
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Wraps a tensor whose logical dtype is its storage dtype, and about which nothing else is known.
    pub(crate) fn new(inner: FloatTensor<G::Inner>, context: &'static Context<B>) -> Self {
        Self {
            logical: precision::of(&inner),
            inner,
            context,
            nature: Nature::Plain,
            recorded: Self::recorded(context, 0),
        }
    }

    /// What is known about a new tensor, whose values a graph computes again in so many ops.
    pub(crate) fn recorded(context: &Context<B>, chain: u8) -> Recorded<B> {
        if context.policy.compute().is_low() {
            Recorded::sharing(chain)
        } else {
            Recorded::nothing()
        }
    }

    /// Updates the nature after `require_grad` or `detach`: a tensor that requires a gradient itself becomes a leaf of
    /// the graph, and a leaf that no longer does becomes a parameter outside it.
    #[inline]
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

    /// The tensor with the F32 values of a [`Rounded`] result instead of the rounded ones, with those of a chain that has
    /// not been computed, and the gradient with the factors of a [`Pending`] one applied.
    #[inline]
    pub(crate) fn exact(self) -> Self {
        if self.has_values() {
            self
        } else {
            self.exact_values()
        }
    }

    /// Whether the tensor stands for nothing but its own values, in any graph.
    #[inline]
    fn has_values(&self) -> bool {
        match &self.nature {
            Nature::Plain
            | Nature::Leaf(_)
            | Nature::Parameter(_)
            | Nature::Gradient(_)
            | Nature::ZerosAndOnes
            | Nature::Filled
            | Nature::Product(_)
            | Nature::LogSoftmax(_) => true,
            Nature::Rounded(_) | Nature::Scores(_) | Nature::Lazy(_) | Nature::Pending(_) => false,
        }
    }

    fn exact_values(self) -> Self {
        let inner = match &self.nature {
            Nature::Rounded(rounded) => rounded.exact(),
            Nature::Scores(_) => return self.with_view(),
            Nature::Lazy(lazy) if lazy.is_view() => return self.with_view(),
            Nature::Lazy(lazy) => lazy.in_f32(),
            Nature::Pending(_) => return self.with_factors(),
            Nature::Plain
            | Nature::Leaf(_)
            | Nature::Parameter(_)
            | Nature::Gradient(_)
            | Nature::ZerosAndOnes
            | Nature::Filled
            | Nature::Product(_)
            | Nature::LogSoftmax(_) => return self,
        };
        made::float::<G::Inner>(&inner);
        Self {
            inner,
            logical: self.logical,
            context: self.context,
            nature: Nature::Plain,
            recorded: Recorded::nothing(),
        }
    }

    /// The tensor with the values of a chain, a view or a gradient that has not been computed.
    #[inline]
    pub(crate) fn computed(self) -> Self {
        match &self.nature {
            Nature::Lazy(_) | Nature::Scores(_) | Nature::Pending(_) => self.exact(),
            Nature::Plain
            | Nature::Leaf(_)
            | Nature::Parameter(_)
            | Nature::Gradient(_)
            | Nature::ZerosAndOnes
            | Nature::Filled
            | Nature::Rounded(_)
            | Nature::Product(_)
            | Nature::LogSoftmax(_) => self,
        }
    }

    /// The gradient with its factors applied, if it has some that are not.
    #[inline]
    pub(crate) fn with_factors(mut self) -> Self {
        if let Nature::Pending(pending) = &self.nature {
            let passes = pending.passes.clone();
            self.inner = pending.applied(self.inner);
            self.nature = Nature::Gradient(passes);
        }
        self
    }

    /// The tensor with the values of a view, or of scores, that have not been computed.
    pub(crate) fn with_view(self) -> Self {
        match &self.nature {
            Nature::Scores(scores) => Self {
                inner: scores.computed(self.inner),
                logical: self.logical,
                context: self.context,
                recorded: self.recorded,
                nature: Nature::Plain,
            },
            Nature::Lazy(lazy) if lazy.is_view() => Self {
                inner: lazy.low(precision::of(&self.inner)),
                logical: self.logical,
                context: self.context,
                recorded: lazy.recorded(),
                nature: Nature::Plain,
            },
            _ => self,
        }
    }

    /// Whether the tensor is in a graph.
    pub(crate) fn is_tracked(&self) -> bool {
        match &self.nature {
            Nature::Lazy(lazy) => lazy.is_tracked(),
            _ => G::is_tracked(&self.inner),
        }
    }

    /// The dtype in which the values are stored, or in which an op would read those of a chain.
    pub(crate) fn stored(&self) -> Precision {
        match &self.nature {
            Nature::Lazy(lazy) if !lazy.is_view() => Precision::F32,
            // Its factors are applied in F32.
            Nature::Pending(_) => precision::of(&self.inner).join(Precision::F32),
            _ => precision::of(&self.inner),
        }
    }

    /// The tensor as an op reads it that computes in F32 from values as they are stored: with the F32 values of a
    /// [`Rounded`] result, and as one of the uses of a leaf.
    #[inline]
    pub(crate) fn operand(self) -> Self {
        let mut exact = self.exact();
        let stored = precision::of(&exact.inner);
        if let Nature::Leaf(leaf) = &exact.nature
            && is_summed_in_f32(stored, exact.context)
        {
            let level = G::level(&exact.inner);
            exact.inner = G::cast_leaf(exact.inner, leaf, stored, level, &exact.context.leaves);
        }
        exact
    }

    /// The tensor as a reader of F32 values gets it.
    fn unrounded(self) -> Self {
        match &self.nature {
            Nature::Product(product) if self.logical == Precision::F32 => Self {
                inner: product.in_f32(),
                logical: self.logical,
                context: self.context,
                nature: Nature::Plain,
                recorded: Recorded::nothing(),
            },
            _ => self.operand(),
        }
    }

    /// The tensor stored in F32, or in F64 if it is.
    pub(crate) fn in_f32(self) -> Self {
        let exact = self.unrounded();
        let wide = precision::of(&exact.inner).join(Precision::F32);
        Self {
            inner: precision::cast::<G::Inner>(exact.inner, wide),
            logical: exact.logical.join(Precision::F32),
            context: exact.context,
            nature: exact.nature.after_cast(),
            recorded: Recorded::nothing(),
        }
    }

    /// Returns the dtype in which the values are stored.
    pub fn storage_dtype(&self) -> DType {
        precision::to_burn(self.stored())
    }

    /// Returns the tensor of the inner backend, cast to the logical dtype: the tensor as the plain backend would hold
    /// it.
    ///
    /// For ops outside the policy; [`Amp::custom_op`](crate::Amp::custom_op) runs an op under it.
    pub fn into_inner(self) -> FloatTensor<G::Inner> {
        let exact = self.unrounded();
        precision::cast::<G::Inner>(exact.inner, exact.logical)
    }
}

/// Whether the gradients of a leaf stored in `dtype` must be added in F32: every use then reads it through a node of its
/// own, even in the dtype in which it is stored.
pub(crate) fn is_summed_in_f32<B: AmpBackend>(dtype: Precision, context: &Context<B>) -> bool {
    dtype.is_low() && context.policy.compute().is_low()
}

impl<B: AmpBackend, G: Graph<B>> Clone for AmpTensor<B, G> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            logical: self.logical,
            context: self.context,
            nature: self.nature.clone(),
            recorded: self.recorded.clone(),
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
        match &self.nature {
            Nature::Lazy(lazy) => lazy.shape(),
            _ => self.inner.shape(),
        }
    }

    fn rank(&self) -> usize {
        match &self.nature {
            Nature::Lazy(lazy) => lazy.shape().num_dims(),
            _ => self.inner.rank(),
        }
    }
}
