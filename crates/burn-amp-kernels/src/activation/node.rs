use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{FloatDType, tensor::FloatTensor};

use super::Activation;
use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked},
};

/// Computes the op as one node of the graph, which keeps the operand as it is stored.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    activation: Activation,
    dtype: FloatDType,
) -> Tracked<B, C> {
    let compute = move |[x]: [FloatTensor<B>; 1]| B::mixed_activation(x, activation, dtype);
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| true, compute);
    node.finish(compute([x.primitive]), |_| activation)
}

impl<B: AmpBackend> Node<B> for Activation {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let x = pass.operand(0).expect("the operand is read");
        let grad = pass.gradient();
        pass.register(0, seen::<B>(B::mixed_activation_backward(x, grad, self)));
    }
}
