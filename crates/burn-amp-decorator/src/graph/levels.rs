//! Untracked graph nodes of a given level.
//!
//! The *level* of a node, its distance from the leaves, is one more than the highest level of its parents. An untracked
//! node that is added as a second parent raises the level of its child and has no other part in the backward pass; for
//! the reason see [`Leaf::level`](super::Leaf).

use std::sync::Arc;

use burn_amp_kernels::names::{device_of, node_of};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops},
};
use burn_backend::{Backend, FloatDType, ops::FloatTensorOps, tensor::FloatTensor};
use parking_lot::Mutex;

/// One untracked node of each level, made when it is first needed.
#[derive(Debug)]
pub(super) struct Levels<B: Backend>(Mutex<Vec<FloatTensor<Autodiff<B>>>>);

impl<B: Backend> Levels<B> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the node of level `level`. Its values are those of `placeholder` and do not matter.
    pub(super) fn node(
        &self,
        level: usize,
        placeholder: impl Fn() -> FloatTensor<B>,
    ) -> FloatTensor<Autodiff<B>> {
        let mut nodes = self.0.lock();
        while nodes.len() <= level {
            let mut node = match nodes.last() {
                None => {
                    let device = device_of::<B>(&placeholder());
                    Autodiff::<B>::float_zeros([1].into(), &device, FloatDType::F32)
                }
                Some(below) => LevelNode
                    .prepare::<NoCheckpointing>([node_of!(below)])
                    .compute_bound()
                    .stateless(placeholder()),
            };
            node.rc = Arc::new(*node.rc);
            nodes.push(node);
        }
        nodes[level].clone()
    }
}

#[derive(Debug)]
struct LevelNode;

impl<B: Backend> Backward<B, 1> for LevelNode {
    type State = ();

    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {
        unreachable!("the node is untracked, so no backward pass visits it");
    }
}
