use std::{any::TypeId, marker::PhantomData};

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer,
        retro_forward::RetroForward,
        state::BackwardStates,
        strategy::{CheckpointStrategy, NoCheckpointing},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::tensor::FloatTensor;

use crate::AmpBackend;

/// Computes the op as one node of the graph. It keeps the output, or the operand under a checkpointing strategy that
/// computes results again.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    dim: usize,
) -> FloatTensor<Autodiff<B, C>> {
    let output = B::mixed_softmax(x.primitive.clone(), dim);
    let keeps_output = TypeId::of::<C>() == TypeId::of::<NoCheckpointing>();
    match Softmax
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(Recompute::<B> {
            x: x.node.id,
            dim,
            backend: PhantomData,
        })
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(prep) if keeps_output => {
            prep.finish((Saved::Output(output.clone()), dim), output)
        }
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&x);
            prep.finish((Saved::Operand(x), dim), output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[derive(Debug)]
struct Softmax;

#[derive(Clone, Debug)]
enum Saved<B: AmpBackend> {
    Output(FloatTensor<B>),
    Operand(NodeId),
}

impl<B: AmpBackend> Backward<B, 1> for Softmax {
    /// What gives the output, and the dimension.
    type State = (Saved<B>, usize);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (saved, dim) = ops.state;
        let output = match saved {
            Saved::Output(output) => output,
            Saved::Operand(x) => B::mixed_softmax(checkpointer.retrieve_node_output(x), dim),
        };
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::mixed_softmax_backward(output, grad, dim)
        });
    }
}

/// Computes the op again from its operand, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B> {
    x: NodeId,
    dim: usize,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        states.save(out_node, B::mixed_softmax(x, self.dim));
    }
}
