use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::tensor::{FloatTensor, IntTensor};

use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked},
};

/// Computes the op as one node of the graph, which keeps the operand of the log-softmax as it is stored.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    output: Tracked<B, C>,
    x: Tracked<B, C>,
    log_sum_exp: Tracked<B, C>,
    targets: IntTensor<B>,
) -> Tracked<B, C> {
    let saved = Saved::<B> {
        x: x.primitive.clone(),
        log_sum_exp: log_sum_exp.primitive,
        targets,
    };
    let output = B::log_softmax_at(
        output.primitive,
        saved.x.clone(),
        saved.log_sum_exp.clone(),
        saved.targets.clone(),
    );
    Recording::<B, C, _, 1>::new([&x], |_| false).finish(output, |_| saved)
}

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
}

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = B::log_softmax_at_backward(self.x, self.log_sum_exp, self.targets, grad);
        pass.register(0, seen::<B>(gradient));
    }
}
