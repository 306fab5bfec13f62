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

/// The most parameters whose graphs are joined. Those beyond are joined by the ops that read them.
const MOST: usize = 1024;

/// Joins the graphs of parameters, which are given without their values.
pub fn join_graphs<B: Backend>(parameters: &[FloatTensor<Autodiff<B>>]) {
    let (Some(first), 2..) = (parameters.first(), parameters.len()) else {
        return;
    };
    let nodes = std::array::from_fn(|at| parameters.get(at).unwrap_or(first).node.clone());
    // Nobody keeps the node: the next backward pass forgets it.
    let _ = Backward::<B, MOST>::prepare::<NoCheckpointing>(Joined, nodes)
        .compute_bound()
        .stateless(first.primitive.clone());
}

/// A node that no backward pass reaches.
#[derive(Debug)]
struct Joined;

impl<B: Backend> Backward<B, MOST> for Joined {
    type State = ();

    fn backward(self, _: Ops<(), MOST>, _: &mut Gradients, _: &mut Checkpointer) {}
}
