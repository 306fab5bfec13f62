//! The role of a tensor in the program, and which operations preserve it.
//!
//! The result of any other op is an activation, or a gradient if an operand is one.

use std::sync::Arc;

use burn_amp_kernels::AmpBackend;
use burn_backend::Backend;

use crate::{
    graph::{Graph, Leaf, Origin},
    loss_scale::Passes,
};

/// What a tensor is to the program.
#[derive(Clone)]
pub enum Role<B: Backend> {
    /// Nothing special: an activation, an input, a constant.
    Activation,
    /// A leaf of the graph: it requires a gradient itself, as a parameter of the model does.
    Leaf(Arc<Leaf<B>>),
    /// A parameter outside the graph, or a copy of one on another device.
    Parameter(Arc<Origin>),
    /// A gradient, or a tensor computed from one: no op on it is lowered. Carries the backward passes it was computed
    /// from.
    Gradient(Passes<B>),
}

impl<B: Backend> Role<B> {
    /// Returns the passes of a gradient; `None` if this is not a gradient.
    #[inline]
    pub fn gradient(&self) -> Option<&Passes<B>> {
        match self {
            Self::Gradient(passes) => Some(passes),
            Self::Activation | Self::Leaf(_) | Self::Parameter(_) => None,
        }
    }

    /// Returns the identity of a parameter.
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        match self {
            Self::Leaf(leaf) => Some(leaf.origin()),
            Self::Parameter(origin) => Some(origin),
            Self::Activation | Self::Gradient(_) => None,
        }
    }

    /// Returns the role after a cast to a dtype that the caller chose. A gradient stays one, and so does a parameter
    /// outside a graph; in a graph the result may become a different parameter.
    pub(crate) fn after_cast<G: Graph<B>>(self) -> Self
    where
        B: AmpBackend,
    {
        match self {
            Self::Parameter(_) if G::RECORDS => Self::Activation,
            Self::Parameter(_) | Self::Gradient(_) => self,
            Self::Activation | Self::Leaf(_) => Self::Activation,
        }
    }

    /// Returns the role after a move to another device or a cut from the graph.
    pub(crate) fn after_move(self) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Parameter(leaf.origin().clone()),
            Self::Activation | Self::Parameter(_) | Self::Gradient(_) => self,
        }
    }

    /// Returns the role after `detach`: a parameter stays one, and ops on a gradient follow the policy from now on.
    pub(crate) fn after_detach(self) -> Self {
        match self.after_move() {
            Self::Gradient(_) => Self::Activation,
            other => other,
        }
    }

    /// Returns the role after `require_grad` was set or cleared. A parameter stays one; ops on anything else follow the
    /// policy from now on.
    pub(crate) fn after_require_grad(self) -> Self {
        match self {
            Self::Leaf(_) | Self::Parameter(_) => self,
            Self::Activation | Self::Gradient(_) => Self::Activation,
        }
    }
}
