//! A node that shows the gradient which passes through it.

use std::{fmt, marker::PhantomData, sync::Arc};

use burn_amp_kernels::names::node_of;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, tensor::FloatTensor};

/// Sees the gradient that passes a node.
pub type Probe<B> = Arc<dyn Fn(&FloatTensor<B>) + Send + Sync>;

/// Returns the same values, in a node whose gradient `probe` sees in the backward pass.
pub(super) fn probed<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    probe: Probe<B>,
) -> FloatTensor<Autodiff<B, C>> {
    if !tensor.is_tracked() {
        return tensor;
    }
    let prep = Shown::<B>(PhantomData)
        .prepare::<C>([node_of!(tensor)])
        .compute_bound()
        .stateful();
    match prep {
        OpsKind::Tracked(prep) => prep.finish(State(probe), tensor.primitive),
        OpsKind::UnTracked(prep) => prep.finish(tensor.primitive),
    }
}

#[derive(Debug)]
struct Shown<B: Backend>(PhantomData<B>);

#[derive(Clone)]
struct State<B: Backend>(Probe<B>);

impl<B: Backend> fmt::Debug for State<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

impl<B: Backend> Backward<B, 1> for Shown<B> {
    type State = State<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let State(probe) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            probe(&grad);
            grad
        });
    }
}
