//! Ops as nodes of Burn's graph. Nothing here knows an op.
//!
//! * `node`: the node of any op
//! * `at_node`: what is known at a node, such as what waits for its backward pass
//! * `saved`: what a graph keeps of the operands of a node
//! * `stop`: a node below which nothing is computed again
//! * `autodiff`: Burn's `Autodiff` as a backend that runs ops

mod at_node;
mod autodiff;
mod node;
pub mod saved;
mod stop;

use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{Backend, tensor::FloatTensor};

pub(crate) use at_node::AtNode;
pub(crate) use node::{
    MOST_OPERANDS, Node, Pass, Recording, Tracked, by_length, record, record_with_all, untracked,
};

/// The values of tensors in a graph.
pub(crate) fn values<B: Backend, C: CheckpointStrategy>(
    tensors: &[Tracked<B, C>],
) -> Vec<FloatTensor<B>> {
    tensors.iter().map(|it| it.primitive.clone()).collect()
}
