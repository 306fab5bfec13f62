use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, broadcast_shape},
};
use burn_backend::{DType, Shape, TensorMetadata, tensor::FloatTensor};

use crate::{
    AmpBackend,
    widen::{cast, widen},
};

/// Computes the product as one node of the graph.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    lhs: FloatTensor<Autodiff<B, C>>,
    rhs: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = [lhs.node.clone(), rhs.node.clone()];
    match Product.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let operands = [&lhs, &rhs].map(|operand| Operand {
                shape: operand.shape(),
                dtype: operand.dtype(),
            });
            let saved = [
                rhs.is_tracked().then(|| prep.checkpoint(&lhs)),
                lhs.is_tracked().then(|| prep.checkpoint(&rhs)),
            ];
            let product = B::mixed_product(lhs.primitive, rhs.primitive);
            prep.finish(Saved { operands, saved }, product)
        }
        OpsKind::UnTracked(prep) => prep.finish(B::mixed_product(lhs.primitive, rhs.primitive)),
    }
}

#[derive(Debug)]
struct Product;

/// The shape and the dtype of an operand.
#[derive(Clone, Debug)]
struct Operand {
    shape: Shape,
    dtype: DType,
}

/// What a product saves for its backward pass.
#[derive(Clone, Debug)]
struct Saved {
    operands: [Operand; 2],
    /// The nodes of the operands that the gradient of the other one needs.
    saved: [Option<NodeId>; 2],
}

impl<B: AmpBackend> Backward<B, 2> for Product {
    type State = Saved;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let Saved { operands, saved } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let [lhs, rhs] = saved
            .map(|node| node.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node)));
        let parents = ops.parents.into_iter().zip(operands).zip([rhs, lhs]);
        for ((parent, operand), other) in parents {
            if let (Some(parent), Some(other)) = (parent, other) {
                let gradient = B::float_mul(grad.clone(), widen::<B>(other));
                let gradient = broadcast_shape::<B>(gradient, &operand.shape);
                grads.register::<B>(parent.id, cast::<B>(gradient, operand.dtype));
            }
        }
    }
}
