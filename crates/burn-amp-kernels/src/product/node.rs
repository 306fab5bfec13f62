use burn_autodiff::{checkpoint::strategy::CheckpointStrategy, ops::broadcast_shape};
use burn_backend::{DType, Shape, TensorMetadata};

use crate::{
    AmpBackend,
    graph::{Node, Pass, Recording, Tracked},
    widen::{cast, widen},
};

/// Computes the product as one node of the graph.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    lhs: Tracked<B, C>,
    rhs: Tracked<B, C>,
) -> Tracked<B, C> {
    let operands = [&lhs, &rhs];
    let saved = Product(operands.map(|operand| (operand.shape(), operand.dtype())));
    // Each operand is read for the gradient of the other one.
    let node = Recording::<B, C, _, 2>::new(operands, |at| operands[1 - at].is_tracked());
    let product = B::mixed_product(lhs.primitive, rhs.primitive);
    node.finish(product, |_| saved)
}

/// The shapes and the dtypes of the operands.
#[derive(Clone, Debug)]
struct Product([(Shape, DType); 2]);

impl<B: AmpBackend> Node<B> for Product {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let [lhs, rhs] = [0, 1].map(|at| pass.operand(at));
        for (at, ((shape, dtype), other)) in self.0.into_iter().zip([rhs, lhs]).enumerate() {
            if let Some(other) = other {
                let gradient = B::float_mul(grad.clone(), widen::<B>(other));
                let gradient = broadcast_shape::<B>(gradient, &shape);
                pass.register(at, cast::<B>(gradient, dtype));
            }
        }
    }
}
