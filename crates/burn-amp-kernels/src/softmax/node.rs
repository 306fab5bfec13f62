use std::any::TypeId;

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
use burn_backend::tensor::{BoolTensor, FloatTensor};

use super::ScaleMask;
use crate::{AmpBackend, flushed::seen};

/// Computes the op as one node of the graph. It keeps the output, or the operand under a checkpointing strategy that
/// computes results again.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<Autodiff<B, C>> {
    let output = B::scaled_masked_softmax(x.primitive.clone(), dim, before.clone());
    let keeps_output = TypeId::of::<C>() == TypeId::of::<NoCheckpointing>();
    match Softmax
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(Recompute::<B> {
            x: x.node.id,
            dim,
            before: before.clone(),
        })
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(prep) if keeps_output => {
            prep.finish((Saved::Output(output.clone()), dim, before), output)
        }
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&x);
            prep.finish((Saved::Operand(x), dim, before), output)
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
    /// What gives the output, the dimension, and what the operand goes through first.
    type State = (Saved<B>, usize, ScaleMask<BoolTensor<B>>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (saved, dim, before) = ops.state;
        let output = match saved {
            Saved::Output(output) => output,
            Saved::Operand(x) => {
                let x = checkpointer.retrieve_node_output(x);
                B::scaled_masked_softmax(x, dim, before.clone())
            }
        };
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            seen::<B>(B::scaled_masked_softmax_backward(output, grad, dim, before))
        });
    }
}

/// Computes the op again from its operand, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B: AmpBackend> {
    x: NodeId,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        let output = B::scaled_masked_softmax(x, self.dim, self.before.clone());
        states.save(out_node, output);
    }
}
