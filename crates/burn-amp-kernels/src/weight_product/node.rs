use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{ops::FloatTensorOps, tensor::FloatTensor};

use super::deferred::{Deferred, Operands};
use crate::{AmpBackend, flushed::seen};

/// Computes the op as one node of the graph. It keeps the operands that the gradients need.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
) -> FloatTensor<Autodiff<B, C>> {
    let output = B::weight_product(
        x.primitive.clone(),
        weight.primitive.clone(),
        bias.as_ref().map(|bias| bias.primitive.clone()),
    );
    match bias {
        Some(bias) => node::<B, C, 3>([x, weight, bias], output),
        None => node::<B, C, 2>([x, weight], output),
    }
}

/// Makes the node of the product of `x` and the weights, or of its sum with the bias.
fn node<B: AmpBackend, C: CheckpointStrategy, const N: usize>(
    operands: [FloatTensor<Autodiff<B, C>>; N],
    output: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = operands.each_ref().map(|operand| operand.node.clone());
    match WeightProduct.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let [x, weight] = [&operands[0], &operands[1]];
            let saved = Saved {
                x: weight.is_tracked().then(|| prep.checkpoint(x)),
                weight: x.is_tracked().then(|| prep.checkpoint(weight)),
                bias_is_leaf: operands
                    .get(2)
                    .is_some_and(Autodiff::<B, C>::float_is_require_grad),
            };
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[derive(Debug)]
struct WeightProduct;

#[derive(Clone, Debug)]
struct Saved {
    /// The operands, each if the gradient of the other one needs it.
    x: Option<NodeId>,
    weight: Option<NodeId>,
    bias_is_leaf: bool,
}

impl<B: AmpBackend, const N: usize> Backward<B, N> for WeightProduct {
    type State = Saved;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let mut parents = ops.parents.into_iter();
        let [x_node, weight_node, bias_node] = [(); 3].map(|()| parents.next().flatten());
        let grad = seen::<B>(grads.consume::<B>(&ops.node));
        let Saved {
            x,
            weight,
            bias_is_leaf,
        } = ops.state;
        let [x, weight] = [x, weight]
            .map(|node| node.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node)));
        let mut bias = bias_node.map(|node| node.id);
        // The gradient of the bias is the first op: a backend that fuses ends the kernel of `grad` there, which else would
        // read the transposed operands of the products.
        if let Some(bias) = bias.take_if(|_| !bias_is_leaf || x.is_none()) {
            grads.register::<B>(bias, B::column_sums(grad.clone()));
        }
        if let (Some(node), Some(x)) = (weight_node, x) {
            let operands = Operands::<B> {
                x,
                grad: grad.clone(),
                bias,
            };
            if let Err(operands) = Deferred::leave(node.id, operands) {
                operands.register(node.id, grads);
            }
        }
        if let (Some(node), Some(weight)) = (x_node, weight) {
            let gradient = B::float_matmul(grad, B::float_transpose(weight));
            grads.register::<B>(node.id, gradient);
        }
    }
}
