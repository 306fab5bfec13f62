//! The backend inside [`Amp`](crate::Amp): the plain backend, or Burn's `Autodiff` over it.
//!
//! `Amp` wraps Burn's `Autodiff`, as PyTorch's autocast sits above autograd: casts are nodes of the graph, so operands
//! are saved in low precision, and gradients are cast back to F32 before they accumulate.
//!
//! A *leaf* of the graph is a tensor that requires a gradient itself: a parameter of the model. The *level* of a node
//! is its distance from the leaves.
//!
//! * [`leaf`]: a parameter, with the cast that all its uses share
//! * [`origin`]: the identity of a parameter, its name, and when a gradient of it was withheld
//! * [`leaves`]: the registry in which a backward pass finds the parameters
//! * `join`: one graph for the parameters of a model
//! * [`weight_cast`]: the graph node of a parameter's cast
//! * [`operand_cast`]: the graph node of any other cast
//! * [`recorded`]: what a graph knows about a tensor besides its node
//! * [`stepped`]: what an optimizer has made
//! * [`probe`]: a node that shows the gradient which passes through it
//! * [`same`]: the values that such a node hands on
//! * [`tape`]: the backend that is Burn's `Autodiff`
//! * [`f32_gradient`]: sums of gradients that are not rounded on their way

mod f32_gradient;
#[cfg(not(burn_0_22))]
mod join;
mod leaf;
mod leaves;
mod operand_cast;
mod origin;
mod probe;
mod recorded;
mod same;
mod stepped;
mod tape;
mod weight_cast;

use std::{fmt::Debug, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{BackendTypes, Shape, ops::FloatTensorOps, tensor::FloatTensor};

use crate::precision;

#[cfg(not(burn_0_22))]
pub use join::join_graphs;
pub use leaf::Leaf;
pub use leaves::Leaves;
pub use origin::{Moment, Origin};
pub use probe::Probe;
pub use recorded::Recorded;
pub use tape::Tape;

pub(crate) use leaves::LeafGradient;
pub(crate) use recorded::SpreadOf;
pub(crate) use stepped::Stepped;

/// Says whether ops are recorded for a backward pass. Only [`NoGraph`] and [`Tape`] implement it. By default a tensor is in
/// no graph.
pub trait Graph<B: AmpBackend>:
    sealed::Sealed + Clone + Copy + Debug + Default + Send + Sync + 'static
{
    /// The backend that computes the ops.
    type Inner: AmpBackend
        + BackendTypes<
            Device = B::Device,
            IntTensorPrimitive = B::IntTensorPrimitive,
            BoolTensorPrimitive = B::BoolTensorPrimitive,
            QuantizedTensorPrimitive = B::QuantizedTensorPrimitive,
        >;

    /// [`Inner`](Self::Inner), but the graph keeps no result of elementwise ops and views: the backward pass computes
    /// what it needs of them again.
    type Recomputed: AmpBackend
        + BackendTypes<
            Device = B::Device,
            FloatTensorPrimitive = FloatTensor<Self::Inner>,
            IntTensorPrimitive = B::IntTensorPrimitive,
            BoolTensorPrimitive = B::BoolTensorPrimitive,
            QuantizedTensorPrimitive = B::QuantizedTensorPrimitive,
        >;

    /// Whether [`Inner`](Self::Inner) records the ops for a backward pass.
    const RECORDS: bool;

    /// Turns a tensor that now requires a gradient into a leaf.
    ///
    /// The leaf is entered in `leaves` only if its gradients are `checked`.
    #[doc(hidden)]
    fn enroll(
        _tensor: &FloatTensor<Self::Inner>,
        _origin: Arc<Origin>,
        _leaves: &Leaves<B>,
        _checked: bool,
    ) -> Option<Arc<Leaf<B>>> {
        None
    }

    /// Returns the level of a tensor in the graph: its distance from the leaves.
    #[doc(hidden)]
    fn level(_tensor: &FloatTensor<Self::Inner>) -> usize {
        0
    }

    /// Casts an operand, or returns a cast that an earlier use of the tensor has `recorded`. For an op that `recomputes`
    /// its result, the graph keeps the operand as it is stored and casts it again in the backward pass.
    #[doc(hidden)]
    fn cast(
        tensor: FloatTensor<Self::Inner>,
        recorded: &Recorded<B>,
        has_clones: bool,
        to: Precision,
        recomputes: bool,
    ) -> FloatTensor<Self::Inner>;

    /// Offers eight bits of a tensor to the node of the op that follows, and to others that read the same values as `origin`.
    #[doc(hidden)]
    fn offer(_tensor: &FloatTensor<Self::Inner>, _origin: Option<&FloatTensor<Self::Inner>>) {}

    /// Reshapes an operand. If it was offered, the result is.
    #[doc(hidden)]
    fn reshaped(tensor: FloatTensor<Self::Inner>, shape: Shape) -> FloatTensor<Self::Inner> {
        Self::Inner::float_reshape(tensor, shape)
    }

    /// The same values in a node that adds its gradients in F32 and rounds their sum to the dtype of the tensor. All uses
    /// share it.
    #[doc(hidden)]
    fn with_f32_gradient(
        tensor: FloatTensor<Self::Inner>,
        _recorded: &Recorded<B>,
    ) -> FloatTensor<Self::Inner> {
        tensor
    }

    /// Whether a backward pass computes the tensor again.
    #[doc(hidden)]
    fn is_recomputed(_tensor: &FloatTensor<Self::Inner>) -> bool {
        false
    }

    /// Whether the tensor is in a graph.
    #[doc(hidden)]
    fn is_tracked(_tensor: &FloatTensor<Self::Inner>) -> bool {
        false
    }

    /// Casts a leaf for one use; all uses of the leaf share the cast values. `operands` is the highest level among the
    /// op's operands. A leaf stored in half precision may be "cast" to its own dtype: its gradients are then added in
    /// F32.
    #[doc(hidden)]
    fn cast_leaf(
        tensor: FloatTensor<Self::Inner>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
        operands: usize,
        leaves: &Leaves<B>,
    ) -> FloatTensor<Self::Inner>;

    /// Casts an F32 tensor to low precision for a product, and says whether the product gets the node of the tensor
    /// [in place](burn_amp_kernels::weight_product::InGraph) of one of the cast.
    #[doc(hidden)]
    fn cast_for_product(
        tensor: FloatTensor<Self::Inner>,
        recorded: &Recorded<B>,
        has_clones: bool,
        to: Precision,
    ) -> (FloatTensor<Self::Inner>, bool) {
        (Self::cast(tensor, recorded, has_clones, to, false), false)
    }

    /// Casts an F32 leaf to low precision for a product, which gets the node of the leaf.
    #[doc(hidden)]
    fn cast_leaf_for_product(
        tensor: FloatTensor<Self::Inner>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
    ) -> FloatTensor<Self::Inner>;

    /// Returns the values of a tensor, outside any graph.
    #[doc(hidden)]
    fn values(tensor: &FloatTensor<Self::Inner>) -> FloatTensor<B>;

    /// The same values as a tensor that is in no graph.
    #[doc(hidden)]
    fn constant(values: FloatTensor<B>) -> FloatTensor<Self::Inner>;

    /// Returns the number of a tensor's node, which clones share.
    #[doc(hidden)]
    fn node(_tensor: &FloatTensor<Self::Inner>) -> Option<u64> {
        None
    }

    /// Returns the node of a leaf without its values, for its gradient.
    #[doc(hidden)]
    fn handle(
        _leaf: &FloatTensor<Self::Inner>,
        _leaves: &Leaves<B>,
    ) -> Option<FloatTensor<burn_autodiff::Autodiff<B>>> {
        None
    }

    /// Returns the same tensor; `probe` sees its gradient in the backward pass.
    #[doc(hidden)]
    fn probed(tensor: FloatTensor<Self::Inner>, _probe: Probe<B>) -> FloatTensor<Self::Inner> {
        tensor
    }

    /// Runs an op whose backward pass adds gradients onto the elements of `tensor`; they are added in F32.
    #[doc(hidden)]
    fn sum_gradient_in_f32(
        tensor: FloatTensor<Self::Inner>,
        op: impl FnOnce(FloatTensor<Self::Inner>) -> FloatTensor<Self::Inner>,
    ) -> FloatTensor<Self::Inner> {
        op(tensor)
    }
}

/// A graph that records the ops, so that the backend can train.
///
/// It exists for its message: [`AutodiffBackend`](burn_backend::AutodiffBackend) is Burn's.
#[diagnostic::on_unimplemented(
    message = "a backend with `{Self}` computes no gradients: `burn_amp::Autodiff` is missing, or is not around `Amp`",
    label = "`Amp` is not inside `burn_amp::Autodiff`",
    note = "write `burn_amp::Autodiff<Amp<Flex>>`: burn-amp's `Autodiff` outside, `Amp` inside it, and the plain backend inside that"
)]
pub trait Records<B: AmpBackend>:
    Graph<B, Inner = burn_autodiff::Autodiff<B, <Self as Records<B>>::Strategy>>
{
    /// The checkpointing strategy.
    type Strategy: CheckpointStrategy;
}

mod sealed {
    pub trait Sealed {}
}

/// Records no op: for inference.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGraph;

impl sealed::Sealed for NoGraph {}
impl<C> sealed::Sealed for Tape<C> {}

impl<B: AmpBackend> Graph<B> for NoGraph {
    type Inner = B;
    type Recomputed = B;

    const RECORDS: bool = false;

    #[inline]
    fn cast(
        tensor: FloatTensor<B>,
        recorded: &Recorded<B>,
        _: bool,
        to: Precision,
        _: bool,
    ) -> FloatTensor<B> {
        if to.is_low() {
            recorded.low(tensor, to)
        } else {
            precision::cast::<B>(tensor, to)
        }
    }

    #[inline]
    fn cast_leaf(
        tensor: FloatTensor<B>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
        _: usize,
        _: &Leaves<B>,
    ) -> FloatTensor<B> {
        leaf.cast(tensor, to)
    }

    #[inline]
    fn cast_leaf_for_product(
        tensor: FloatTensor<B>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
    ) -> FloatTensor<B> {
        leaf.cast(tensor, to)
    }

    #[inline]
    fn values(tensor: &FloatTensor<B>) -> FloatTensor<B> {
        tensor.clone()
    }

    #[inline]
    fn constant(values: FloatTensor<B>) -> FloatTensor<B> {
        values
    }
}
