//! The methods of a tensor of Burn's autodiff, which burn-dispatch and extensions of Burn 0.22 call.
//!
//! Whoever takes the values out gets them in the logical dtype, and the node of a cast to it.

use burn_amp_kernels::AmpBackend;
use burn_autodiff::{NodeId, checkpoint::strategy::CheckpointStrategy, ops::NodeGuard};
use burn_backend::tensor::FloatTensor;

use super::AmpTensor;
use crate::graph::Tape;

impl<B: AmpBackend, C: CheckpointStrategy> AmpTensor<B, Tape<C>> {
    /// Returns the values.
    pub fn into_primitive(self) -> FloatTensor<B> {
        self.into_inner().primitive
    }

    /// Returns the node in the graph, which is kept as long as the guard.
    pub fn node(&self) -> NodeGuard {
        self.clone().into_inner().node()
    }

    /// Returns the values and the node.
    pub fn into_parts(self) -> (FloatTensor<B>, NodeGuard) {
        self.into_inner().into_parts()
    }

    /// Returns the number of the node in the graph.
    pub fn id(&self) -> NodeId {
        self.in_graph().node.id
    }
}
