use std::marker::PhantomData;

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{FloatDType, tensor::FloatTensor};

use super::Activation;
use crate::{AmpBackend, flushed::seen};

/// Computes the op as one node of the graph, which keeps the operand as it is stored.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    activation: Activation,
    dtype: FloatDType,
) -> FloatTensor<Autodiff<B, C>> {
    let output = B::mixed_activation(x.primitive.clone(), activation, dtype);
    match ActivationNode
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(Recompute::<B> {
            x: x.node.id,
            activation,
            dtype,
            backend: PhantomData,
        })
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&x);
            prep.finish((x, activation), output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[derive(Debug)]
struct ActivationNode;

impl<B: AmpBackend> Backward<B, 1> for ActivationNode {
    /// The operand, and the function.
    type State = (NodeId, Activation);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, activation) = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            seen::<B>(B::mixed_activation_backward(x, grad, activation))
        });
    }
}

/// Computes the op again from its operand, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B> {
    x: NodeId,
    activation: Activation,
    dtype: FloatDType,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        let output = B::mixed_activation(x, self.activation, self.dtype);
        states.save(out_node, output);
    }
}
