//! What burn-amp knows of a tensor besides its values, and what becomes of that knowledge.
//!
//! The cases exclude each other, and this file is the one place that says which of them survives an operation. The result
//! of an op never inherits a fact about values; see [`AmpTensor::of_result`](super::AmpTensor).

use std::sync::Arc;

use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use crate::{
    graph::{Graph, Leaf, Origin},
    loss_scale::Passes,
};

/// What burn-amp knows of a tensor besides its values.
pub(crate) enum Nature<B: AmpBackend, G: Graph<B>> {
    /// Nothing: an activation, an input, a constant.
    Plain,
    /// It requires a gradient itself: it is a parameter of the model.
    Leaf(Arc<Leaf<B>>),
    /// It is a parameter outside the graph, or on another device.
    Parameter(Arc<Origin>),
    /// It is a gradient, or computed from one: no op on it is lowered.
    Gradient(Passes<B>),
    /// Each of its values is 0 or 1, which every dtype holds.
    ZerosAndOnes,
    /// It is the log-softmax of another tensor along the last dimension.
    LogSoftmax(Box<LogSoftmaxOperand<B, G>>),
}

/// The operand of a log-softmax, and what its forward pass computed per row.
pub(crate) struct LogSoftmaxOperand<B: AmpBackend, G: Graph<B>> {
    pub(crate) x: FloatTensor<G::Inner>,
    pub(crate) log_sum_exp: FloatTensor<G::Inner>,
}

impl<B: AmpBackend, G: Graph<B>> Nature<B, G> {
    /// The passes of a gradient; `None` if this is no gradient.
    #[inline]
    pub(crate) fn gradient(&self) -> Option<&Passes<B>> {
        match self {
            Self::Gradient(passes) => Some(passes),
            Self::Plain
            | Self::Leaf(_)
            | Self::Parameter(_)
            | Self::ZerosAndOnes
            | Self::LogSoftmax(_) => None,
        }
    }

    /// The identity of a parameter.
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        match self {
            Self::Leaf(leaf) => Some(leaf.origin()),
            Self::Parameter(origin) => Some(origin),
            Self::Plain | Self::Gradient(_) | Self::ZerosAndOnes | Self::LogSoftmax(_) => None,
        }
    }

    /// After a cast to a dtype that the caller chose: still a gradient, and outside a graph still a parameter. In a graph
    /// the result may become another parameter.
    pub(crate) fn after_cast(self) -> Self {
        match self {
            Self::Gradient(passes) => Self::Gradient(passes),
            Self::Parameter(origin) if !G::RECORDS => Self::Parameter(origin),
            Self::Plain
            | Self::Leaf(_)
            | Self::Parameter(_)
            | Self::ZerosAndOnes
            | Self::LogSoftmax(_) => Self::Plain,
        }
    }

    /// After a move to another device, or a cut from the graph: what is known of the values must not lead back into it.
    pub(crate) fn after_move<H: Graph<B>>(self) -> Nature<B, H> {
        match self {
            Self::Leaf(leaf) => Nature::Parameter(leaf.origin().clone()),
            Self::Parameter(origin) => Nature::Parameter(origin),
            Self::Gradient(passes) => Nature::Gradient(passes),
            Self::Plain | Self::ZerosAndOnes | Self::LogSoftmax(_) => Nature::Plain,
        }
    }

    /// After `require_grad` was set or cleared: ops on it follow the policy, and only a parameter is still known as such.
    pub(crate) fn after_require_grad(self) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(leaf),
            Self::Parameter(origin) => Self::Parameter(origin),
            Self::Plain | Self::Gradient(_) | Self::ZerosAndOnes | Self::LogSoftmax(_) => {
                Self::Plain
            }
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
            Self::ZerosAndOnes => Self::ZerosAndOnes,
            Self::LogSoftmax(operand) => Self::LogSoftmax(Box::new(LogSoftmaxOperand {
                x: operand.x.clone(),
                log_sum_exp: operand.log_sum_exp.clone(),
            })),
        }
    }
}
