use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::ops::FloatTensorOps;

use super::deferred::{Deferred, Operands};
use crate::{
    AmpBackend,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked, by_length},
};

/// Computes the op as one node of the graph. It keeps the operands that the gradients need.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    bias: Option<Tracked<B, C>>,
) -> Tracked<B, C> {
    let output = B::weight_product(
        x.primitive.clone(),
        weight.primitive.clone(),
        bias.as_ref().map(|bias| bias.primitive.clone()),
    );
    let saved = WeightProduct {
        bias_is_leaf: bias
            .as_ref()
            .is_some_and(Autodiff::<B, C>::float_is_require_grad),
    };
    let operands: Vec<_> = [&x, &weight].into_iter().chain(&bias).collect();
    // `x` and the weights are read for the gradient of each other.
    let is_read = [weight.is_tracked(), x.is_tracked(), false];
    by_length!(operands, 2 3; N => {
        let operands = std::array::from_fn(|at| operands[at]);
        Recording::<B, C, _, N>::new(operands, |at| is_read[at]).finish(output, |_| saved)
    })
}

#[derive(Clone, Debug)]
struct WeightProduct {
    bias_is_leaf: bool,
}

impl<B: AmpBackend> Node<B> for WeightProduct {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = seen::<B>(pass.gradient());
        let [x, weight] = [0, 1].map(|at| pass.operand(at));
        let mut bias = pass.parent(2);
        // The gradient of the bias is the first op: a backend that fuses ends the kernel of `grad` there, which else would
        // read the transposed operands of the products.
        if let Some(bias) = bias.take_if(|_| !self.bias_is_leaf || x.is_none()) {
            let gradient = B::column_sums(grad.clone());
            pass.grads.register::<B>(bias, gradient);
        }
        if let (Some(node), Some(x)) = (pass.parent(1), x) {
            let operands = Operands::<B> {
                x,
                grad: grad.clone(),
                bias,
            };
            if let Err(operands) = Deferred::leave(node, operands) {
                operands.register(node, pass.grads);
            }
        }
        if let Some(weight) = weight {
            pass.register(0, B::float_matmul(grad, B::float_transpose(weight)));
        }
    }
}
