use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::tensor::FloatTensor;

use crate::AmpBackend;

/// Computes the op as one node of the graph. It keeps the operands that the gradients need.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = [x.node.clone(), weight.node.clone()];
    match WeightProduct.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let saved = Saved {
                x: weight.is_tracked().then(|| prep.checkpoint(&x)),
                weight: x.is_tracked().then(|| prep.checkpoint(&weight)),
            };
            let output = B::float_matmul(x.primitive, weight.primitive);
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(B::float_matmul(x.primitive, weight.primitive)),
    }
}

#[derive(Debug)]
struct WeightProduct;

/// The operands, each if the gradient of the other one needs it.
#[derive(Clone, Debug)]
struct Saved {
    x: Option<NodeId>,
    weight: Option<NodeId>,
}

impl<B: AmpBackend> Backward<B, 2> for WeightProduct {
    type State = Saved;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let [x_node, weight_node] = ops.parents;
        let grad = grads.consume::<B>(&ops.node);
        let [x, weight] = [ops.state.x, ops.state.weight]
            .map(|node| node.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node)));
        if let (Some(node), Some(weight)) = (x_node, weight) {
            let gradient = B::float_matmul(grad.clone(), B::float_transpose(weight));
            grads.register::<B>(node.id, gradient);
        }
        if let (Some(node), Some(x)) = (weight_node, x) {
            let gradient = B::wide_matmul(B::float_transpose(x), grad);
            grads.register::<B>(node.id, gradient);
        }
    }
}
