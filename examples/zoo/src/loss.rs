//! The losses, each the mean over a batch.

use burn::{
    nn::loss::{BinaryCrossEntropyLossConfig, CrossEntropyLossConfig},
    prelude::*,
};

/// Returns the cross entropy of logits `[item, class]` and classes `[item]`.
pub(crate) fn cross_entropy<B: Backend>(
    logits: Tensor<B, 2>,
    target: Tensor<B, 1, Int>,
) -> Tensor<B, 1> {
    let loss = CrossEntropyLossConfig::new().init(&logits.device());
    loss.forward(logits, target)
}

/// Returns the cross entropy of logits `[batch, position, token]` and tokens `[batch, position]`, over all positions.
pub(crate) fn token_cross_entropy<B: Backend>(
    logits: Tensor<B, 3>,
    target: Tensor<B, 2, Int>,
) -> Tensor<B, 1> {
    cross_entropy(logits.flatten(0, 1), target.flatten(0, 1))
}

/// Returns the binary cross entropy of logits and targets of 0 or 1.
pub(crate) fn binary_cross_entropy<B: Backend, const D: usize>(
    logits: Tensor<B, D>,
    target: Tensor<B, D, Int>,
) -> Tensor<B, 1> {
    let loss = BinaryCrossEntropyLossConfig::new()
        .with_logits(true)
        .init(&logits.device());
    loss.forward(logits, target)
}
