//! The graph node of an operand's cast.

use std::{
    any::Any,
    marker::PhantomData,
    mem::{Discriminant, discriminant},
    sync::OnceLock,
};

use burn_amp_core::Precision;
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer,
        retro_forward::RetroForward,
        state::BackwardStates,
        strategy::{BalancedCheckpointing, CheckpointStrategy},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, FloatDType, tensor::FloatTensor};

use crate::precision;

/// Casts an operand. For an op that `recomputes` its result, and under a checkpointing strategy that recomputes, the
/// graph keeps the operand as it is stored, and the backward pass casts it again. Burn's own cast keeps the result.
pub(super) fn cast<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    to: Precision,
    recomputes: bool,
) -> FloatTensor<Autodiff<B, C>> {
    let from = precision::of(&tensor.primitive);
    if from == to {
        return tensor;
    }
    if recomputes {
        let output = node::<B, C, BalancedCheckpointing>(tensor, from, to);
        if output.is_tracked() {
            learn_memory_bound(&output.node.properties);
        }
        output
    } else {
        node::<B, C, C>(tensor, from, to)
    }
}

/// Makes the node under the checkpointing strategy `S`.
fn node<B: Backend, C: CheckpointStrategy, S: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    from: Precision,
    to: Precision,
) -> FloatTensor<Autodiff<B, C>> {
    let to = precision::to_float(to);
    let output = B::float_cast(tensor.primitive.clone(), to);
    let prep = Cast
        .prepare::<S>([tensor.node.clone()])
        .memory_bound()
        .retro_forward(CastAgain::<B> {
            operand: tensor.node.id,
            to,
            backend: PhantomData,
        })
        .parents([&tensor])
        .stateful();
    match prep {
        OpsKind::Tracked(prep) => prep.finish(precision::to_float(from), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

/// Whether the backward pass computes the tensor again.
#[inline]
pub(super) fn is_recomputed<B: Backend, C: CheckpointStrategy>(
    tensor: &FloatTensor<Autodiff<B, C>>,
) -> bool {
    is_memory_bound(&tensor.node.properties)
}

/// The discriminant of burn-autodiff's `ComputingProperty::MemoryBound`, from the first cast that is recomputed. No
/// chain of recomputed results exists before it.
///
/// burn-autodiff makes the property of a node public, but not its type. So the type is inferred and never named.
static MEMORY_BOUND: OnceLock<Box<dyn Any + Send + Sync>> = OnceLock::new();

fn is_memory_bound<Property: 'static>(property: &Property) -> bool {
    MEMORY_BOUND
        .get()
        .and_then(|memory_bound| memory_bound.downcast_ref::<Discriminant<Property>>())
        .is_some_and(|memory_bound| *memory_bound == discriminant(property))
}

fn learn_memory_bound<Property: 'static>(property: &Property) {
    MEMORY_BOUND.get_or_init(|| Box::new(discriminant(property)));
}

#[derive(Debug)]
struct Cast;

impl<B: Backend> Backward<B, 1> for Cast {
    type State = FloatDType;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::float_cast(grad, ops.state)
        });
    }
}

#[derive(Debug)]
struct CastAgain<B: Backend> {
    operand: NodeId,
    to: FloatDType,
    backend: PhantomData<B>,
}

impl<B: Backend> RetroForward for CastAgain<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let operand = states.get_state::<B::FloatTensorPrimitive>(&self.operand);
        states.save(out, B::float_cast(operand, self.to));
    }
}
