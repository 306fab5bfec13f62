//! A tensor and its node in a graph.

use std::borrow::Cow;

use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use super::{AmpTensor, Reader, Role, forms::Forms};
use crate::graph::{Graph, Probe};

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Whether the tensor is in a graph.
    pub fn is_tracked(&self) -> bool {
        match self.chain() {
            Some(lazy) => lazy.is_tracked(),
            None => G::is_tracked(&self.inner),
        }
    }

    /// The level in the graph of the tensor, or of the one that it is made of.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        G::level(&self.inner)
    }

    /// The number of the tensor's own node in the graph; `None` if it has none.
    pub(crate) fn own_node(&self) -> Option<u64> {
        if self.waits() {
            None
        } else {
            G::node(&self.inner)
        }
    }

    /// The node of a leaf without its values, for its gradient.
    pub fn handle(&self) -> Option<FloatTensor<burn_autodiff::Autodiff<B>>> {
        match &self.role {
            Role::Leaf(_) => G::handle(&self.inner, &self.context.leaves),
            _ => None,
        }
    }

    /// Whether a gradient may be stored for the tensor. None is for one in no graph that waits, such as a running mean, unless it has
    /// been computed for someone who stored one.
    pub(crate) fn may_have_gradient(&self) -> bool {
        !self.waits() || self.is_tracked() || self.facts.forms::<G>().is_some_and(Forms::is_made)
    }

    /// The tensor of the graph at whose node a gradient of this tensor is stored. It is computed if it waits.
    pub(crate) fn in_graph(&self) -> Cow<'_, FloatTensor<G::Inner>> {
        if self.waits() {
            Cow::Owned(self.clone().read(self.exact_dtype(), Reader::Cut))
        } else {
            Cow::Borrowed(&self.inner)
        }
    }

    /// The same tensor; `probe` sees its gradient in the backward pass. A tensor that waits has no node yet, and stays as
    /// it is.
    pub(crate) fn probed(self, probe: Probe<B>) -> Self {
        if self.waits() {
            return self;
        }
        Self {
            inner: G::probed(self.inner, probe),
            ..self
        }
    }
}
