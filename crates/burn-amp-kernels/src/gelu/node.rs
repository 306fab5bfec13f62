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
use burn_backend::tensor::FloatTensor;

use crate::AmpBackend;

/// Computes the op as one node of the graph, which keeps the operand as it is stored.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let output = B::mixed_gelu(x.primitive.clone());
    match Gelu
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(Recompute::<B> {
            x: x.node.id,
            backend: PhantomData,
        })
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&x);
            prep.finish(x, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[derive(Debug)]
struct Gelu;

impl<B: AmpBackend> Backward<B, 1> for Gelu {
    /// The input.
    type State = NodeId;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let x = checkpointer.retrieve_node_output(ops.state);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::mixed_gelu_backward(x, grad)
        });
    }
}

/// Computes the op again from its operand, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B> {
    x: NodeId,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        states.save(out_node, B::mixed_gelu(x));
    }
}
