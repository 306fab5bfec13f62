//! Ops as nodes of Burn's graph. Nothing here knows an op.
//!
//! * `node`: the node of any op
//! * `at_node`: what waits at a node for its backward pass
//! * `autodiff`: Burn's `Autodiff` as a backend that runs ops

mod at_node;
mod autodiff;
mod node;

use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{Backend, tensor::FloatTensor};

pub(crate) use at_node::AtNode;
pub(crate) use node::{
    MOST_OPERANDS, Node, Pass, Recording, Tracked, by_length, record, untracked,
};

/// The values of tensors in a graph.
pub(crate) fn values<B: Backend, C: CheckpointStrategy>(
    tensors: &[Tracked<B, C>],
) -> Vec<FloatTensor<B>> {
    tensors.iter().map(|it| it.primitive.clone()).collect()
}
