use std::marker::PhantomData;

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{
    get_device_settings,
    tensor::{BoolTensor, FloatTensor},
};

use super::ScalarOp;
use crate::{AmpBackend, made};

/// Computes the op as one node of the graph.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    op: ScalarOp,
    scalar: f64,
) -> FloatTensor<Autodiff<B, C>> {
    let again = Recompute::<B> {
        x: x.node.id,
        op,
        scalar,
        backend: PhantomData,
    };
    match ScalarNode
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(again)
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(prep) => {
            let negative = (op == ScalarOp::LeakyRelu).then(|| negative::<B>(&x.primitive));
            prep.finish(
                (op, scalar, negative),
                B::mixed_scalar(x.primitive, op, scalar),
            )
        }
        OpsKind::UnTracked(prep) => prep.finish(B::mixed_scalar(x.primitive, op, scalar)),
    }
}

/// Returns where a tensor is negative.
fn negative<B: AmpBackend>(x: &FloatTensor<B>) -> BoolTensor<B> {
    let dtype = get_device_settings::<B>(&B::float_device(x)).bool_dtype;
    let negative = B::float_lower_elem(x.clone(), 0f32.into(), dtype);
    made::bool::<B>(&negative);
    negative
}

#[derive(Debug)]
struct ScalarNode;

impl<B: AmpBackend> Backward<B, 1> for ScalarNode {
    /// The op, the scalar, and where the operand of a leaky ReLU is negative.
    type State = (ScalarOp, f64, Option<BoolTensor<B>>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (op, scalar, negative) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| match (op, negative) {
            (ScalarOp::Add | ScalarOp::Sub, _) => grad,
            (ScalarOp::Mul | ScalarOp::Div, _) => B::mixed_scalar(grad, op, scalar),
            (ScalarOp::LeakyRelu, negative) => {
                let negative = negative.expect("the node of a leaky ReLU saves the signs");
                let scaled = B::mixed_scalar(grad.clone(), ScalarOp::Mul, scalar);
                B::float_mask_where(grad, negative, scaled)
            }
        });
    }
}

/// Computes the op again from its operand, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B> {
    x: NodeId,
    op: ScalarOp,
    scalar: f64,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        states.save(out_node, B::mixed_scalar(x, self.op, self.scalar));
    }
}
