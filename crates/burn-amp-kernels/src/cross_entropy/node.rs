use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::tensor::{FloatTensor, IntTensor};

use crate::{AmpBackend, flushed::seen};

/// Computes the op as one node of the graph, which keeps the operand of the log-softmax as it is stored.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    output: FloatTensor<Autodiff<B, C>>,
    x: FloatTensor<Autodiff<B, C>>,
    log_sum_exp: FloatTensor<Autodiff<B, C>>,
    targets: IntTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let log_sum_exp = log_sum_exp.primitive;
    let output = B::log_softmax_at(
        output.primitive,
        x.primitive.clone(),
        log_sum_exp.clone(),
        targets.clone(),
    );
    match LogSoftmaxAt
        .prepare::<C>([x.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish((x.primitive, log_sum_exp, targets), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[derive(Debug)]
struct LogSoftmaxAt;

impl<B: AmpBackend> Backward<B, 1> for LogSoftmaxAt {
    /// The input, its log-sum-exp, and the targets.
    type State = (FloatTensor<B>, FloatTensor<B>, IntTensor<B>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, targets) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            seen::<B>(B::log_softmax_at_backward(x, log_sum_exp, targets, grad))
        });
    }
}
