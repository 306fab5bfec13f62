use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{TensorMetadata, ops::FloatTensorOps};

use crate::{
    AmpBackend,
    graph::{MOST_OPERANDS, Node, Pass, Tracked, record},
};

/// Concatenates as one node of the graph, which saves nothing. More parts than a node can have are Burn's node.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    parts: Vec<Tracked<B, C>>,
    dim: usize,
) -> Tracked<B, C> {
    if parts.len() > MOST_OPERANDS {
        return Autodiff::<B, C>::float_cat(parts, dim);
    }
    let values = parts.iter().map(|part| part.primitive.clone()).collect();
    let whole = B::cat(values, dim);
    let operands: Vec<_> = parts.iter().collect();
    record::<B, C, _>(&operands, whole, |_| Cat {
        dim,
        sizes: parts.iter().map(|part| part.shape()[dim]).collect(),
    })
}

#[derive(Clone, Debug)]
struct Cat {
    dim: usize,
    /// The sizes of the parts in the dimension.
    sizes: Vec<usize>,
}

impl<B: AmpBackend> Node<B> for Cat {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let parts = B::split(pass.gradient(), &self.sizes, self.dim);
        for (at, part) in parts.into_iter().enumerate() {
            pass.register(at, part);
        }
    }
}
