//! The methods of a tensor of Burn's autodiff, which burn-dispatch and extensions of Burn 0.22 call.
//!
//! Whoever takes the values out gets them in the logical dtype, and the node of a cast to it.

use std::sync::Arc;

use burn_amp_kernels::AmpBackend;
use burn_autodiff::{Autodiff, NodeId, checkpoint::strategy::CheckpointStrategy, ops::NodeGuard};
use burn_backend::{DType, Shape, tensor::FloatTensor};

use super::{AmpTensor, Facts, Role};
use crate::{
    graph::{Graph, Tape},
    loss_scale::Passes,
    precision,
};

impl<B: AmpBackend> Facts<B> {
    /// The dtype that the program sees.
    pub fn logical_dtype(&self) -> DType {
        precision::to_burn(self.logical)
    }

    /// Whether the values have another form, which a cast does not make.
    pub fn has_forms(&self) -> bool {
        self.forms.is_some()
    }

    /// The shape of a tensor whose stored values have another one.
    pub fn shape_to_be<G: Graph<B>>(&self) -> Option<Shape> {
        self.forms::<G>()?.recipe.shape()
    }
}

impl<B: AmpBackend, C: CheckpointStrategy> AmpTensor<B, Tape<C>> {
    /// Returns what is stored, and what is known about it.
    #[inline(always)]
    pub fn into_values_and_facts(self) -> (FloatTensor<Autodiff<B, C>>, Arc<Facts<B>>) {
        (self.inner, self.facts)
    }

    /// Makes a tensor of what is stored and of what is known about it.
    #[inline(always)]
    pub fn of_values_and_facts(values: FloatTensor<Autodiff<B, C>>, facts: Arc<Facts<B>>) -> Self {
        Self::with_facts(values, facts)
    }

    /// The passes from which the program has taken a gradient of the tensor, as far as their outcome may be on the device.
    pub fn passes(&self) -> Passes<B> {
        match &self.role {
            Role::Leaf(leaf) => leaf.passes(),
            _ => Passes::none(),
        }
    }

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
