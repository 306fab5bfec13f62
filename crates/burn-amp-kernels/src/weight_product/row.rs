//! A bias that the program adds to a product itself: `x.matmul(w) + bias.unsqueeze()`.
//!
//! Its gradient is the sum of the columns of the product's gradient, as with a bias of the product's own, and is computed with
//! the gradient of the weight. For that the node of the sum must know the leaf below the row, since nobody is left to reshape what is
//! computed after the pass: it leaves the gradient with the node of the product.

use std::sync::Arc;

use burn_autodiff::NodeId;
use burn_backend::ops::FloatTensorOps;

use super::{column_sums, matrix};
use crate::{graph::AtNode, prelude::*};

/// Reshapes a tensor, such as a bias to a row. On Burn's `Autodiff`, a row of a leaf remembers the leaf.
pub fn row<B: AmpBackend>(x: FloatTensor<B>, shape: Shape) -> FloatTensor<B> {
    B::run(BiasRow { shape }, [x].into()).one()
}

#[derive(Clone, Debug)]
struct BiasRow {
    shape: Shape,
}

impl Kernel for BiasRow {
    const NAME: &'static str = "burn_amp::row";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        [B::float_reshape(operands.one(), self.shape.clone())].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let is_row = self.shape.as_slice().last() == operands.floats[0].shape().as_slice().last();
        let x = &operands.floats[0];
        if !is_row || x.rank() != 1 || !Autodiff::<B, C>::float_is_require_grad(x) {
            return self.reference::<Autodiff<B, C>>(operands);
        }
        let row = B::float_reshape(x.primitive.clone(), self.shape);
        let saved = RowSaved::<B> {
            row: row.clone(),
            leaf: Arc::new(LeafOfRow(x.node.id).into()),
        };
        let leaf = saved.leaf.clone();
        let node = Recording::<B, C, _, 1>::new([x], |_| false).finish(row, |_| saved);
        leaf.wait_at(node.node.id);
        [node].into()
    }
}

/// The node of a leaf.
#[derive(Debug)]
struct LeafOfRow(NodeId);

/// The leaf of which a row is made.
pub(super) fn leaf_of(row: NodeId) -> Option<NodeId> {
    Some(AtNode::<LeafOfRow>::find(row)?.lock().0)
}

#[derive(Clone, Debug)]
struct RowSaved<B: AmpBackend> {
    row: FloatTensor<B>,
    leaf: Arc<AtNode<LeafOfRow>>,
}

impl<B: AmpBackend> Node<B> for RowSaved<B> {
    /// There is no gradient if all readers have left theirs with products.
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        if let Some(gradient) = pass.gradient_if_any(self.row) {
            let leaf = Shape::new([gradient.shape().num_elements()]);
            pass.register(0, B::float_reshape(gradient, leaf));
        }
    }
}

/// The bias that was added to a product, if its gradient was left with the product's node.
pub(super) type Added<B> = AtNode<Option<Box<Left<B>>>>;

/// What the node of a sum leaves with the node of a product.
#[derive(Debug)]
pub(super) struct Left<B: AmpBackend> {
    /// The leaf of the bias.
    leaf: NodeId,
    /// The gradient of the sum.
    grad: FloatTensor<B>,
}

/// Leaves the gradient of a sum with the node of its product, for the leaf of its bias, or returns it if it must be registered.
pub(super) fn leave<B: AmpBackend>(
    product: NodeId,
    leaf: NodeId,
    grad: FloatTensor<B>,
) -> Result<(), FloatTensor<B>> {
    match Added::<B>::find(product) {
        Some(added) if added.lock().is_none() => {
            *added.lock() = Some(Box::new(Left { leaf, grad }));
            Ok(())
        }
        _ => Err(grad),
    }
}

/// The gradient of a product, and the leaf of the bias that was added to it if the gradient is that of the sum alone. Of a product
/// with other readers, the gradient of the leaf is registered.
pub(super) fn with_leaf<B: AmpBackend, const N: usize>(
    added: Option<&Added<B>>,
    pass: &mut Pass<'_, B, N>,
) -> (FloatTensor<B>, Option<NodeId>) {
    let Some(left) = added.and_then(|added| added.lock().take()) else {
        return (pass.gradient(), None);
    };
    let Left { leaf, grad } = *left;
    let Some(others) = pass.gradient_if_any(grad.clone()) else {
        return (grad, Some(leaf));
    };
    let sums = column_sums::<B>(matrix::<B>(seen::<B>(grad.clone())));
    pass.grads.register::<B>(leaf, sums);
    (B::float_add(grad, others), None)
}
