use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};

use super::{Attention, AttentionGradients};
use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Tracked, record},
};

/// Computes the op as one node of the graph, which keeps the operands. It has three of them, or four with a bias.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    operands: Attention<Autodiff<B, C>>,
) -> Tracked<B, C> {
    let Attention {
        query,
        key,
        value,
        mask,
        bias,
        options,
    } = &operands;
    let values = Attention::<B> {
        query: query.primitive.clone(),
        key: key.primitive.clone(),
        value: value.primitive.clone(),
        mask: mask.clone(),
        bias: bias.as_ref().map(|bias| bias.primitive.clone()),
        options: *options,
    };
    let output = B::mixed_attention(values.clone());
    let operands: Vec<_> = [query, key, value].into_iter().chain(bias).collect();
    record::<B, C, _>(&operands, output, |_| values)
}

impl<B: AmpBackend> Node<B> for Attention<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let AttentionGradients {
            query,
            key,
            value,
            bias,
        } = B::mixed_attention_backward(self, pass.gradient());
        let gradients = [Some(query), Some(key), Some(value), bias];
        for (at, gradient) in gradients.into_iter().enumerate() {
            if let Some(gradient) = gradient
                && pass.parent(at).is_some()
            {
                pass.register(at, seen::<B>(gradient));
            }
        }
    }
}
