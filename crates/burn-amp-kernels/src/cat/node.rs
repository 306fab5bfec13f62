use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use crate::AmpBackend;

/// Concatenates as one node of the graph, which saves nothing. More than 16 parts are Burn's node, as the number of a
/// node's parents is part of its type.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    parts: Vec<FloatTensor<Autodiff<B, C>>>,
    dim: usize,
) -> FloatTensor<Autodiff<B, C>> {
    macro_rules! nodes {
        ($($count:literal)*) => {
            match parts.len() {
                $($count => node::<B, C, $count>(exactly(parts), dim),)*
                _ => Autodiff::<B, C>::float_cat(parts, dim),
            }
        };
    }
    nodes!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

fn exactly<T, const N: usize>(parts: Vec<T>) -> [T; N] {
    parts
        .try_into()
        .unwrap_or_else(|_| unreachable!("the list was matched by its length"))
}

fn node<B: AmpBackend, C: CheckpointStrategy, const N: usize>(
    parts: [FloatTensor<Autodiff<B, C>>; N],
    dim: usize,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = parts.each_ref().map(|part| part.node.clone());
    let sizes = parts.each_ref().map(|part| part.primitive.shape()[dim]);
    let whole = B::cat(parts.map(|part| part.primitive).into(), dim);
    match Cat.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((dim, sizes), whole),
        OpsKind::UnTracked(prep) => prep.finish(whole),
    }
}

#[derive(Debug)]
struct Cat;

impl<B: AmpBackend, const N: usize> Backward<B, N> for Cat {
    /// The dimension, and the sizes of the parts in it.
    type State = (usize, [usize; N]);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (dim, sizes) = ops.state;
        let parts = B::split(grad, &sizes, dim);
        for (node, part) in ops.parents.into_iter().zip(parts) {
            if let Some(node) = node {
                grads.register::<B>(node.id, part);
            }
        }
    }
}
