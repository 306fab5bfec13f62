//! Burn's `Autodiff` over the plain backend.

use std::{marker::PhantomData, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::{AmpBackend, affine, saved};
use burn_autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn_backend::{Shape, ops::FloatTensorOps, tensor::FloatTensor};

use super::{
    Graph, Leaf, Leaves, Origin, Probe, Recorded, Records, f32_gradient, operand_cast, probe,
    weight_cast,
};

impl<B: AmpBackend, C: CheckpointStrategy> Records<B> for Tape<C> {
    type Strategy = C;
}

/// Records the ops in Burn's `Autodiff`, with the checkpointing strategy `C`: for training.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tape<C = NoCheckpointing>(PhantomData<C>);

impl<B: AmpBackend, C: CheckpointStrategy> Graph<B> for Tape<C> {
    type Inner = burn_autodiff::Autodiff<B, C>;
    type Recomputed = burn_autodiff::Autodiff<B, BalancedCheckpointing>;

    const RECORDS: bool = true;

    fn enroll(
        tensor: &FloatTensor<Self::Inner>,
        origin: Arc<Origin>,
        leaves: &Leaves<B>,
        checked: bool,
    ) -> Option<Arc<Leaf<B>>> {
        Some(if checked {
            leaves.enroll(tensor, origin)
        } else {
            Arc::new(Leaf::new(origin))
        })
    }

    #[inline]
    fn level(tensor: &FloatTensor<Self::Inner>) -> usize {
        tensor.node.order
    }

    #[inline]
    fn cast(
        tensor: FloatTensor<Self::Inner>,
        recorded: &Recorded<B>,
        has_clones: bool,
        to: Precision,
        recomputes: bool,
    ) -> FloatTensor<Self::Inner> {
        operand_cast::cast::<B, C>(tensor, recorded, has_clones, to, recomputes)
    }

    fn with_f32_gradient(
        tensor: FloatTensor<Self::Inner>,
        recorded: &Recorded<B>,
    ) -> FloatTensor<Self::Inner> {
        let origin = tensor.node.id;
        let tensor = recorded.with_f32_gradient(tensor, affine::joined::<B, C>);
        if saved::is_offering() && recorded.parameter.is_none() {
            saved::offer::<B>(&tensor, origin);
        }
        tensor
    }

    fn offer(tensor: &FloatTensor<Self::Inner>, origin: Option<&FloatTensor<Self::Inner>>) {
        saved::offer::<B>(tensor, origin.unwrap_or(tensor).node.id);
    }

    fn reshaped(tensor: FloatTensor<Self::Inner>, shape: Shape) -> FloatTensor<Self::Inner> {
        if !tensor.is_tracked() {
            return Self::constant(B::float_reshape(tensor.primitive, shape));
        }
        let before = tensor.node.id;
        let tensor = Self::Inner::float_reshape(tensor, shape);
        if saved::is_offering() {
            saved::offer_as::<B>(&tensor, before);
        }
        tensor
    }

    #[inline]
    fn is_recomputed(tensor: &FloatTensor<Self::Inner>) -> bool {
        saved::is_recomputed::<B>(tensor)
    }

    #[inline]
    fn is_tracked(tensor: &FloatTensor<Self::Inner>) -> bool {
        tensor.is_tracked()
    }

    fn cast_leaf(
        tensor: FloatTensor<Self::Inner>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
        operands: usize,
        leaves: &Leaves<B>,
    ) -> FloatTensor<Self::Inner> {
        weight_cast::cast::<B, C>(tensor, leaf, to, operands, leaves)
    }

    fn cast_for_product(
        tensor: FloatTensor<Self::Inner>,
        recorded: &Recorded<B>,
        has_clones: bool,
        to: Precision,
    ) -> (FloatTensor<Self::Inner>, bool) {
        operand_cast::for_product::<B, C>(tensor, recorded, has_clones, to)
    }

    fn cast_leaf_for_product(
        mut tensor: FloatTensor<Self::Inner>,
        leaf: &Arc<Leaf<B>>,
        to: Precision,
    ) -> FloatTensor<Self::Inner> {
        tensor.primitive = leaf.cast(tensor.primitive, to);
        tensor
    }

    fn values(tensor: &FloatTensor<Self::Inner>) -> FloatTensor<B> {
        tensor.primitive.clone()
    }

    fn constant(values: FloatTensor<B>) -> FloatTensor<Self::Inner> {
        FloatTensor::<Self::Inner>::new(values)
    }

    fn node(tensor: &FloatTensor<Self::Inner>) -> Option<u64> {
        Some(tensor.node.id.value)
    }

    fn handle(
        leaf: &FloatTensor<Self::Inner>,
        leaves: &Leaves<B>,
    ) -> Option<FloatTensor<burn_autodiff::Autodiff<B>>> {
        Some(leaves.handle(leaf))
    }

    fn probed(tensor: FloatTensor<Self::Inner>, probe: Probe<B>) -> FloatTensor<Self::Inner> {
        probe::probed::<B, C>(tensor, probe)
    }

    fn sum_gradient_in_f32(
        tensor: FloatTensor<Self::Inner>,
        op: impl FnOnce(FloatTensor<Self::Inner>) -> FloatTensor<Self::Inner>,
    ) -> FloatTensor<Self::Inner> {
        f32_gradient::sum_in_f32::<B, C>(tensor, op)
    }
}
