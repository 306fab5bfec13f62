//! A bias that the program adds to a product itself: `x.matmul(w) + bias.unsqueeze()`.
//!
//! Its gradient is the sum of the columns of the product's gradient, as with a bias of the product's own, and is computed with
//! the gradient of the weight: the node of the sum leaves it with the node of the product. The sum reads the bias itself, and not a row of
//! it, since nobody is left to reshape what is computed after the pass.

use burn_autodiff::NodeId;

use super::{column_sums, matrix};
use crate::{graph::AtNode, prelude::*};

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
