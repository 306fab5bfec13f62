use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{FloatDType, tensor::FloatTensor};

use super::LogSoftmax;
use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked},
    made,
};

/// Computes the op as one node of the graph, which keeps the operand as it is stored and one number per row.
///
/// The sums of exponentials are in the result without a node.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    dim: usize,
    dtype: FloatDType,
) -> (Tracked<B, C>, FloatTensor<B>) {
    let LogSoftmax {
        output,
        log_sum_exp,
    } = B::mixed_log_softmax(x.primitive.clone(), dim, dtype);
    made::float::<B>(&log_sum_exp);
    let saved = |_: &FloatTensor<B>| Saved::<B> {
        x: x.primitive.clone(),
        log_sum_exp: log_sum_exp.clone(),
        dim,
    };
    let output = Recording::<B, C, _, 1>::new([&x], |_| false).finish(output, saved);
    (output, log_sum_exp)
}

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    dim: usize,
}

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = B::mixed_log_softmax_backward(self.x, self.log_sum_exp, grad, self.dim);
        pass.register(0, seen::<B>(gradient));
    }
}
