//! With what extensions of Burn write nodes of a graph: burn-autodiff's interface, whose tensors are those of burn-amp.
//!
//! A node of an extension reads values in the dtypes that the program sees.

use std::fmt::Debug;

use burn_amp_decorator::{AmpTensor, Context, FromFile};
use burn_autodiff_engine::{
    checkpoint::{base::Checkpointer, retro_forward::RetroForward, strategy::CheckpointStrategy},
    envelope::renamed,
    grads::Gradients,
    ops as engine,
};
use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

pub use burn_autodiff_engine::ops::{
    ComputePropertyDone, DifferentiableTransfer, Init, MemoryBound, MemoryBoundRetroForward,
    NodeGuard, Ops, Tracked, UnTracked, binary, broadcast_shape, unary,
};
use burn_autodiff_engine::{Autodiff as Recorded, NodeId};

use crate::{AutodiffTensor, known::Known};

/// The backward pass of an op with `N` operands.
pub trait Backward<B: Backend, const N: usize>: Send + Debug + Sized + 'static {
    /// What the op keeps for it.
    type State: Clone + Send + Debug + 'static;

    /// Registers the gradients of the operands.
    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    );

    /// Begins the node of an op.
    fn prepare<C: CheckpointStrategy>(
        self,
        nodes: [NodeGuard; N],
    ) -> OpsPrep<Self, B, Self::State, C, N> {
        OpsPrep(engine::Backward::<B, N>::prepare::<C>(Step(self), nodes))
    }
}

/// The backward pass of an extension as one of the engine.
#[derive(Debug)]
pub struct Step<T>(T);

impl<B: Backend, T: Backward<B, N>, const N: usize> engine::Backward<B, N> for Step<T> {
    type State = T::State;

    fn backward(
        self,
        ops: Ops<T::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        self.0.backward(ops, grads, checkpointer);
    }
}

/// A node in preparation.
pub struct OpsPrep<BO, B, S, C, const N: usize, Mode = Init>(
    engine::OpsPrep<Step<BO>, B, S, C, N, Mode>,
);

/// Whether the node is recorded.
pub enum OpsKind<BO, B, S, C, const N: usize> {
    /// It is, as an operand requires a gradient.
    Tracked(OpsPrep<BO, B, S, C, N, Tracked>),
    /// It is not.
    UnTracked(OpsPrep<BO, B, S, C, N, UnTracked>),
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, Init>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
{
    /// The op is expensive, and is not computed again.
    pub fn compute_bound(self) -> OpsPrep<BO, B, S, C, N, ComputePropertyDone> {
        OpsPrep(self.0.compute_bound())
    }

    /// The op is cheap, and gradient checkpointing may compute it again.
    pub fn memory_bound(self) -> OpsPrep<BO, B, S, C, N, MemoryBound> {
        OpsPrep(self.0.memory_bound())
    }
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, MemoryBound>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
    C: CheckpointStrategy,
{
    /// Says how the op is computed again.
    pub fn retro_forward<R: RetroForward>(
        self,
        retro_forward: R,
    ) -> OpsPrep<BO, B, S, C, N, MemoryBoundRetroForward> {
        OpsPrep(self.0.retro_forward(retro_forward))
    }
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, MemoryBoundRetroForward>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
    C: CheckpointStrategy,
{
    /// Keeps the operands, from which the op is computed again.
    pub fn parents<'a, B2: Backend>(
        self,
        parents: impl IntoIterator<Item = &'a AutodiffTensor<B2>>,
    ) -> OpsPrep<BO, B, S, C, N, ComputePropertyDone> {
        let parents: Vec<_> = parents.into_iter().map(recorded::<B2>).collect();
        OpsPrep(self.0.parents(&parents))
    }
}

impl<BO, B, C, const N: usize> OpsPrep<BO, B, (), C, N, ComputePropertyDone>
where
    B: Backend,
    BO: Backward<B, N, State = ()>,
{
    /// Makes the node of an op that keeps nothing.
    pub fn stateless(self, output: FloatTensor<B>) -> AutodiffTensor<B> {
        amped::<B>(self.0.stateless(output))
    }
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, ComputePropertyDone>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
{
    /// Asks whether the op has to keep anything.
    pub fn stateful(self) -> OpsKind<BO, B, S, C, N> {
        match self.0.stateful() {
            engine::OpsKind::Tracked(prep) => OpsKind::Tracked(OpsPrep(prep)),
            engine::OpsKind::UnTracked(prep) => OpsKind::UnTracked(OpsPrep(prep)),
        }
    }
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, UnTracked>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
{
    /// Wraps the result of an op that is not recorded.
    pub fn finish(self, output: FloatTensor<B>) -> AutodiffTensor<B> {
        amped::<B>(self.0.finish(output))
    }
}

impl<BO, B, S, C, const N: usize> OpsPrep<BO, B, S, C, N, Tracked>
where
    B: Backend,
    BO: Backward<B, N, State = S>,
    S: Clone + Send + Debug + 'static,
    C: CheckpointStrategy,
{
    /// Makes the node.
    pub fn finish(self, state: S, output: FloatTensor<B>) -> AutodiffTensor<B> {
        amped::<B>(self.0.finish(state, output))
    }

    /// Keeps an operand, or computes it again in the backward pass.
    pub fn checkpoint(&mut self, tensor: &AutodiffTensor<B>) -> NodeId {
        self.0.checkpoint(&recorded::<B>(tensor))
    }
}

/// A tensor of the engine under the policy of its device.
pub(crate) fn amped<B: Backend>(tensor: FloatTensor<Recorded<B>>) -> AutodiffTensor<B> {
    let context = Context::<Known<B>>::of::<FromFile>(&tensor.device());
    AutodiffTensor::of(AmpTensor::new(renamed(tensor), context))
}

/// A tensor as the engine has it, in the dtype that the program sees.
pub(crate) fn recorded<B: Backend>(tensor: &AutodiffTensor<B>) -> FloatTensor<Recorded<B>> {
    renamed(tensor.clone().tracked().into_inner())
}
