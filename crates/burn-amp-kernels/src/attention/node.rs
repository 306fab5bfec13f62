use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::tensor::FloatTensor;

use super::{Attention, AttentionGradients};
use crate::{AmpBackend, flushed::seen};

/// Computes the op as one node of the graph, which keeps the operands.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    operands: Attention<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let Attention {
        query,
        key,
        value,
        mask,
        bias,
        options,
    } = operands;
    let (bias, bias_node) = match bias {
        Some(bias) => (Some(bias.primitive), Some(bias.node)),
        None => (None, None),
    };
    let operands = Attention::<B> {
        query: query.primitive,
        key: key.primitive,
        value: value.primitive,
        mask,
        bias,
        options,
    };
    let output = B::mixed_attention(operands.clone());
    let nodes = [query.node, key.node, value.node];
    match bias_node {
        Some(bias) => {
            let [query, key, value] = nodes;
            let prep = AttentionNode.prepare::<C>([query, key, value, bias]);
            match prep.compute_bound().stateful() {
                OpsKind::Tracked(prep) => prep.finish(operands, output),
                OpsKind::UnTracked(prep) => prep.finish(output),
            }
        }
        None => match AttentionNode.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(operands, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        },
    }
}

/// Has three parents, or four with a bias.
#[derive(Debug)]
struct AttentionNode;

impl<B: AmpBackend, const N: usize> Backward<B, N> for AttentionNode {
    type State = Attention<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let AttentionGradients {
            query,
            key,
            value,
            bias,
        } = B::mixed_attention_backward(ops.state, grad);
        let gradients = [Some(query), Some(key), Some(value), bias];
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, seen::<B>(gradient));
            }
        }
    }
}
