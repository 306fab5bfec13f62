//! A node that shows the gradient which passes through it.

use std::{fmt, marker::PhantomData, sync::Arc};

use burn_amp_kernels::{names::node_of, saved::is_recomputed};
use burn_autodiff::{
    Autodiff,
    checkpoint::{
        base::Checkpointer,
        strategy::{BalancedCheckpointing, CheckpointStrategy},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, tensor::FloatTensor};

use super::same::Same;

/// Sees the gradient that passes a node.
pub type Probe<B> = Arc<dyn Fn(&FloatTensor<B>) + Send + Sync>;

/// Returns the same values, in a node whose gradient `probe` sees in the backward pass. The graph keeps what it would keep
/// without the node: values that it computes again are computed again.
pub(super) fn probed<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    probe: Probe<B>,
) -> FloatTensor<Autodiff<B, C>> {
    if !tensor.is_tracked() {
        return tensor;
    }
    let shown = Shown::<B>(PhantomData);
    let nodes = [node_of!(tensor)];
    if is_recomputed::<B>(&tensor) {
        let prep = shown.prepare::<BalancedCheckpointing>(nodes);
        let prep = prep.memory_bound().retro_forward(Same::of(&tensor));
        finish(prep.parents([&tensor]).stateful(), probe, tensor)
    } else {
        let prep = shown.prepare::<C>(nodes).compute_bound();
        finish(prep.stateful(), probe, tensor)
    }
}

fn finish<B: Backend, C: CheckpointStrategy>(
    prep: OpsKind<Shown<B>, B, State<B>, C, 1>,
    probe: Probe<B>,
    tensor: FloatTensor<Autodiff<B>>,
) -> FloatTensor<Autodiff<B>> {
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
