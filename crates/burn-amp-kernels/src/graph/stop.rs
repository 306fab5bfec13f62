//! A node below which nothing is computed again.
//!
//! Burn's gradient checkpointing keeps the operands of what it computes again, at the nodes from which they come. An operand
//! of which eight bits are kept gets a node of its own, with a placeholder for Burn to keep.

use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{
    FloatDType,
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};

use super::{at_node::SameNode, node::untracked};
use crate::{
    AmpBackend,
    names::{device_of, node_of},
};

/// Makes the node. The result has none of the values. What waits at the tensor's node is found at the new one.
pub(super) fn at<B: AmpBackend>(tensor: &FloatTensor<Autodiff<B>>) -> FloatTensor<Autodiff<B>> {
    let device = device_of::<B>(&tensor.primitive);
    let placeholder = B::float_empty([1].into(), &device, FloatDType::F32);
    let prep = Stop::<B>(PhantomData).prepare::<NoCheckpointing>([node_of!(tensor)]);
    match prep.compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let same = Arc::new(OnceLock::new());
            let stop = prep.finish((device, same.clone()), placeholder);
            let _ = same.set(SameNode::new(stop.node.id, tensor.node.id));
            stop
        }
        OpsKind::UnTracked(_) => untracked::<B, NoCheckpointing>(placeholder),
    }
}

#[derive(Debug)]
struct Stop<B>(PhantomData<fn() -> B>);

impl<B: AmpBackend> Backward<B, 1> for Stop<B> {
    type State = (Device<B>, Arc<OnceLock<SameNode>>);

    /// Hands on the gradient, unless it waits at the node of the operand.
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [Some(parent)] = ops.parents else {
            return;
        };
        // burn-autodiff finds a gradient that may be missing by a tensor.
        let mut here = Autodiff::<B>::float_empty([1].into(), &ops.state.0, FloatDType::F32);
        here.node = ops.node;
        if let Some(grad) = grads.remove::<B>(&here) {
            grads.register::<B>(parent.id, grad);
        }
    }
}
