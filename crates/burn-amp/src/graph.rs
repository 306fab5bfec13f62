//! Whether a graph is recorded for a backward pass.
//!
//! [`Amp`] stands outside Burn's `Autodiff`, as PyTorch's autocast stands above autograd: casts are nodes of the graph,
//! so operands are saved in low precision and gradients are back in F32 before they accumulate.

use std::{fmt::Debug, marker::PhantomData, sync::Arc};

use burn_amp_core::Dtype;
use burn_amp_kernels::Kernels;
use burn_autodiff::{
    checkpoint::{
        base::Checkpointer,
        strategy::{CheckpointStrategy, NoCheckpointing},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{Backend, BackendTypes, FloatDType, tensor::FloatTensor};

use crate::{Amp, AmpTensor, PolicySource, context::Context, dtype, leaf::Leaf};

/// What [`Amp`] calls its ops on: the plain backend, or Burn's `Autodiff` over it.
pub trait Graph<B: Kernels>: Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// The backend that computes the ops.
    type Inner: Kernels
        + BackendTypes<
            Device = B::Device,
            FloatElem = B::FloatElem,
            IntElem = B::IntElem,
            BoolElem = B::BoolElem,
            IntTensorPrimitive = B::IntTensorPrimitive,
            BoolTensorPrimitive = B::BoolTensorPrimitive,
            QuantizedTensorPrimitive = B::QuantizedTensorPrimitive,
        >;

    /// Whether [`Inner`](Self::Inner) records the ops for a backward pass.
    const RECORDS: bool;

    /// Enters a tensor that now requires a gradient into the books.
    #[doc(hidden)]
    fn enroll(
        tensor: &FloatTensor<Self::Inner>,
        context: &'static Context<B>,
    ) -> Option<Arc<Leaf<B>>>;

    /// How far a tensor is from the leaves.
    #[doc(hidden)]
    fn level(tensor: &FloatTensor<Self::Inner>) -> usize;

    /// Casts a leaf; all uses of the leaf share the cast values. `beside` is the level of the operands beside it.
    #[doc(hidden)]
    fn cast_leaf(
        tensor: FloatTensor<Self::Inner>,
        leaf: &Leaf<B>,
        to: Dtype,
        beside: usize,
        context: &'static Context<B>,
    ) -> FloatTensor<Self::Inner>;
}

/// Ops are computed and forgotten: inference.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGraph;

/// Ops are recorded by Burn's `Autodiff` with the checkpointing strategy `C`: training.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tape<C = NoCheckpointing>(PhantomData<C>);

/// The backend to train with: `Autodiff<Amp<B>>` in the place of Burn's `Autodiff<B>`.
///
/// An alias that puts [`Amp`] *outside* Burn's `Autodiff` and adds loss scaling to `backward()`. `C` is Burn's
/// checkpointing strategy, for example `BalancedCheckpointing`.
pub type Autodiff<A, C = NoCheckpointing> = <A as Record<C>>::Recorded;

/// Makes [`Autodiff<Amp<B, P>, C>`](Autodiff) out of `Amp<B, P>`.
pub trait Record<C> {
    /// The same backend with a graph.
    type Recorded;
}

impl<B, P, C> Record<C> for Amp<B, P, NoGraph> {
    type Recorded = Amp<B, P, Tape<C>>;
}

impl<B: Kernels> Graph<B> for NoGraph {
    type Inner = B;

    const RECORDS: bool = false;

    fn enroll(_: &FloatTensor<B>, _: &'static Context<B>) -> Option<Arc<Leaf<B>>> {
        None
    }

    fn level(_: &FloatTensor<B>) -> usize {
        0
    }

    fn cast_leaf(
        tensor: FloatTensor<B>,
        leaf: &Leaf<B>,
        to: Dtype,
        _: usize,
        _: &'static Context<B>,
    ) -> FloatTensor<B> {
        leaf.cast(tensor, to)
    }
}

impl<B: Kernels, C: CheckpointStrategy> Graph<B> for Tape<C> {
    type Inner = burn_autodiff::Autodiff<B, C>;

    const RECORDS: bool = true;

    fn enroll(
        tensor: &FloatTensor<Self::Inner>,
        context: &'static Context<B>,
    ) -> Option<Arc<Leaf<B>>> {
        Some(match context.scaler.scale() {
            Some(_) => context.leaves.enroll(tensor),
            None => Leaf::unlisted(),
        })
    }

    fn level(tensor: &FloatTensor<Self::Inner>) -> usize {
        tensor.node.order
    }

    /// A node of its own for every use, over values that all uses share.
    ///
    /// Sharing the node would be wrong: a backward pass consumes it, and a second loss that was computed before that
    /// pass would lose its gradient. Gradients of the uses accumulate in the leaf's dtype.
    fn cast_leaf(
        tensor: FloatTensor<Self::Inner>,
        leaf: &Leaf<B>,
        to: Dtype,
        beside: usize,
        context: &'static Context<B>,
    ) -> FloatTensor<Self::Inner> {
        let level = leaf.level(context.pass(), beside);
        let level = context.leaves.node_of_level(level, &tensor.primitive);
        let from = dtype::to_float(dtype::of(&tensor.primitive));
        let low = leaf.cast(tensor.primitive, to);
        match CastLeaf
            .prepare::<C>([tensor.node, level.node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(from, low),
            OpsKind::UnTracked(prep) => prep.finish(low),
        }
    }
}

/// A cast of a leaf. Its parents are the leaf and an untracked node that says above which level it stands.
#[derive(Debug)]
struct CastLeaf;

impl<B: Backend> Backward<B, 2> for CastLeaf {
    type State = FloatDType;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [leaf, _] = ops.parents;
        unary::<B, _>([leaf], ops.node, grads, |grad| {
            B::float_cast(grad, ops.state)
        });
    }
}

/// Backends made of [`Amp`], with or without a graph.
pub trait AmpBackend: Backend<FloatTensorPrimitive = AmpTensor<Self::Plain, Self::Graph>> {
    /// The plain backend below.
    type Plain: Kernels<Device = Self::Device>;
    /// Where the policy comes from.
    type Source: PolicySource;
    /// Whether a graph is recorded.
    type Graph: Graph<Self::Plain>;
}

impl<B: Kernels, P: PolicySource, G: Graph<B>> AmpBackend for Amp<B, P, G> {
    type Plain = B;
    type Source = P;
    type Graph = G;
}
