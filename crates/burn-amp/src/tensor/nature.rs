//! The nature of a tensor: what burn-amp knows about it besides its values, and which operations preserve that.
//!
//! The cases exclude each other. This file says which of them survives a cast, a move or a cut from the graph. The
//! result of any other op is plain, or a gradient if an operand is one; it never inherits a fact about values.

use std::sync::Arc;

use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use super::{lazy::Lazy, pending::Pending, product::Product, rounded::Rounded, scores::Scores};
use crate::{
    graph::{Graph, Leaf, Origin},
    loss_scale::Passes,
};

/// What burn-amp knows about a tensor besides its values.
pub(crate) enum Nature<B: AmpBackend, G: Graph<B>> {
    /// Nothing special: an activation, an input, a constant.
    Plain,
    /// A leaf of the graph: it requires a gradient itself, as a parameter of the model does.
    Leaf(Arc<Leaf<B>>),
    /// A parameter outside the graph, or a copy of one on another device.
    Parameter(Arc<Origin>),
    /// A gradient, or a tensor computed from one: no op on it is lowered. Carries the backward passes it was computed
    /// from.
    Gradient(Passes<B>),
    /// A gradient whose factors have not been applied yet.
    Pending(Arc<Pending<B, G>>),
    /// All values are 0 or 1, which every dtype represents exactly.
    ZerosAndOnes,
    /// All values are the same number, which the compute dtype represents exactly, or they are undefined.
    Filled,
    /// A result that was rounded to low precision, whose F32 values can be computed.
    Rounded(Arc<Rounded<B, G>>),
    /// A product stored in F16, whose F32 values can be computed.
    Product(Arc<Product<B, G>>),
    /// A chain of ops on a low tensor that has not been computed. The values in the tensor are those of the low tensor.
    Lazy(Arc<Lazy<B, G>>),
    /// A product that is to be scaled and masked. The values in the tensor are those of the product.
    Scores(Arc<Scores<B, G>>),
    /// The log-softmax of another tensor along the last dimension.
    LogSoftmax(Box<LogSoftmaxOperand<B, G>>),
}

/// The operand of a log-softmax, and the logarithm of each row's sum of exponentials.
pub(crate) struct LogSoftmaxOperand<B: AmpBackend, G: Graph<B>> {
    pub(crate) x: FloatTensor<G::Inner>,
    pub(crate) log_sum_exp: FloatTensor<G::Inner>,
}

impl<B: AmpBackend, G: Graph<B>> Nature<B, G> {
    /// Returns the passes of a gradient; `None` if this is not a gradient.
    #[inline]
    pub(crate) fn gradient(&self) -> Option<&Passes<B>> {
        match self {
            Self::Gradient(passes) => Some(passes),
            Self::Pending(pending) => Some(&pending.passes),
            Self::Plain
            | Self::Leaf(_)
            | Self::Parameter(_)
            | Self::ZerosAndOnes
            | Self::Filled
            | Self::Rounded(_)
            | Self::Product(_)
            | Self::Lazy(_)
            | Self::Scores(_)
            | Self::LogSoftmax(_) => None,
        }
    }

    /// Returns the identity of a parameter.
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        match self {
            Self::Leaf(leaf) => Some(leaf.origin()),
            Self::Parameter(origin) => Some(origin),
            Self::Plain
            | Self::Gradient(_)
            | Self::Pending(_)
            | Self::ZerosAndOnes
            | Self::Filled
            | Self::Rounded(_)
            | Self::Product(_)
            | Self::Lazy(_)
            | Self::Scores(_)
            | Self::LogSoftmax(_) => None,
        }
    }

    /// Returns the nature after a cast to a dtype that the caller chose. A gradient stays one, and so does a parameter
    /// outside a graph; in a graph the result may become a different parameter.
    pub(crate) fn after_cast(self) -> Self {
        match self {
            Self::Gradient(passes) => Self::Gradient(passes),
            Self::Pending(pending) => Self::Gradient(pending.passes.clone()),
            Self::Parameter(origin) if !G::RECORDS => Self::Parameter(origin),
            Self::Plain
            | Self::Leaf(_)
            | Self::Parameter(_)
            | Self::ZerosAndOnes
            | Self::Filled
            | Self::Rounded(_)
            | Self::Product(_)
            | Self::Lazy(_)
            | Self::Scores(_)
            | Self::LogSoftmax(_) => Self::Plain,
        }
    }

    /// Returns the nature after a move to another device or a cut from the graph. Facts about values are dropped: they
    /// may hold tensors that lead back into the graph.
    pub(crate) fn after_move<H: Graph<B>>(self) -> Nature<B, H> {
        match self {
            Self::Leaf(leaf) => Nature::Parameter(leaf.origin().clone()),
            Self::Parameter(origin) => Nature::Parameter(origin),
            Self::Gradient(passes) => Nature::Gradient(passes),
            Self::Pending(pending) => Nature::Gradient(pending.passes.clone()),
            Self::Plain
            | Self::ZerosAndOnes
            | Self::Filled
            | Self::Rounded(_)
            | Self::Product(_)
            | Self::Lazy(_)
            | Self::Scores(_)
            | Self::LogSoftmax(_) => Nature::Plain,
        }
    }

    /// Returns the nature after `detach`: a parameter stays one, and ops on a gradient follow the policy from now on.
    pub(crate) fn after_detach(self) -> Self {
        match self.after_move() {
            Self::Gradient(_) => Self::Plain,
            other => other,
        }
    }

    /// Returns the nature after `require_grad` was set or cleared. A parameter stays one; ops on anything else follow
    /// the policy from now on.
    pub(crate) fn after_require_grad(self) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(leaf),
            Self::Parameter(origin) => Self::Parameter(origin),
            Self::Plain
            | Self::Gradient(_)
            | Self::Pending(_)
            | Self::ZerosAndOnes
            | Self::Filled
            | Self::Rounded(_)
            | Self::Product(_)
            | Self::Lazy(_)
            | Self::Scores(_)
            | Self::LogSoftmax(_) => Self::Plain,
        }
    }
}

impl<B: AmpBackend, G: Graph<B>> Clone for Nature<B, G> {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Leaf(leaf) => Self::Leaf(leaf.clone()),
            Self::Parameter(origin) => Self::Parameter(origin.clone()),
            Self::Gradient(passes) => Self::Gradient(passes.clone()),
            Self::Pending(pending) => Self::Pending(pending.clone()),
            Self::ZerosAndOnes => Self::ZerosAndOnes,
            Self::Filled => Self::Filled,
            Self::Rounded(rounded) => Self::Rounded(rounded.clone()),
            Self::Product(product) => Self::Product(product.clone()),
            Self::Lazy(lazy) => Self::Lazy(lazy.clone()),
            Self::Scores(scores) => Self::Scores(scores.clone()),
            Self::LogSoftmax(operand) => Self::LogSoftmax(Box::new(LogSoftmaxOperand {
                x: operand.x.clone(),
                log_sum_exp: operand.log_sum_exp.clone(),
            })),
        }
    }
}
