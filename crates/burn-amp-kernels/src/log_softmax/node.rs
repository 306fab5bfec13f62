use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{FloatDType, tensor::FloatTensor};

use super::LogSoftmax;
use crate::{AmpBackend, flushed::seen, made};

/// Computes the op as one node of the graph, which keeps the operand as it is stored and one number per row.
///
/// The sums of exponentials are in the result without a node.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    dim: usize,
    dtype: FloatDType,
) -> (FloatTensor<Autodiff<B, C>>, FloatTensor<B>) {
    let LogSoftmax {
        output,
        log_sum_exp,
    } = B::mixed_log_softmax(x.primitive.clone(), dim, dtype);
    made::float::<B>(&log_sum_exp);
    let output = match LogSoftmaxNode
        .prepare::<C>([x.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish((x.primitive, log_sum_exp.clone(), dim), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    };
    (output, log_sum_exp)
}

#[derive(Debug)]
struct LogSoftmaxNode;

impl<B: AmpBackend> Backward<B, 1> for LogSoftmaxNode {
    /// The input, its log-sum-exp, and the dimension.
    type State = (FloatTensor<B>, FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, dim) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            seen::<B>(B::mixed_log_softmax_backward(x, log_sum_exp, grad, dim))
        });
    }
}
