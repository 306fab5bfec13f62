//! The values of a node that shows or casts gradients only.

use std::marker::PhantomData;

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{retro_forward::RetroForward, state::BackwardStates},
};
use burn_backend::{Backend, tensor::FloatTensor};

/// Hands the values of a tensor on when Burn's gradient checkpointing computes them again.
#[derive(Debug)]
pub(super) struct Same<B> {
    of: NodeId,
    backend: PhantomData<B>,
}

impl<B: Backend> Same<B> {
    /// The values of a tensor.
    pub(super) fn of(tensor: &FloatTensor<Autodiff<B>>) -> Self {
        Self {
            of: tensor.node.id,
            backend: PhantomData,
        }
    }
}

impl<B: Backend> RetroForward for Same<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let values = states.get_state::<FloatTensor<B>>(&self.of);
        states.save(out_node, values);
    }
}
