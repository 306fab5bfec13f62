//! One graph for all parameters of a model.
//!
//! In Burn's autodiff a parameter begins a graph of its own, and an op on nodes of two graphs moves the nodes of one, whichever, to the
//! other. A parameter whose graph was moved a second time is still found in the first one, so that each of its uses moves all nodes
//! again. So the graphs are joined here, as long as they have no nodes but the parameters.

use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops},
};
use burn_backend::{Backend, tensor::FloatTensor};

/// Joins the graphs of parameters, which are given without their values. Those of more than 1024 are joined by the ops that read
/// them.
pub fn join_graphs<B: Backend>(parameters: &[FloatTensor<Autodiff<B>>]) {
    // A node has a fixed number of parents, each of which costs time.
    match parameters.len() {
        0 | 1 => {}
        2..=16 => join::<B, 16>(parameters),
        17..=128 => join::<B, 128>(parameters),
        129.. => join::<B, 1024>(parameters),
    }
}

fn join<B: Backend, const N: usize>(parameters: &[FloatTensor<Autodiff<B>>]) {
    let first = &parameters[0];
    let nodes = std::array::from_fn(|at| parameters.get(at).unwrap_or(first).node.clone());
    // Nobody keeps the node: the next backward pass forgets it.
    let _ = Backward::<B, N>::prepare::<NoCheckpointing>(Joined, nodes)
        .compute_bound()
        .stateless(first.primitive.clone());
}

/// A node that no backward pass reaches.
#[derive(Debug)]
struct Joined;

impl<B: Backend, const N: usize> Backward<B, N> for Joined {
    type State = ();

    fn backward(self, _: Ops<(), N>, _: &mut Gradients, _: &mut Checkpointer) {}
}
