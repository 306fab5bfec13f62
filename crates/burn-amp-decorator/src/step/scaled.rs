//! Burn's backward pass over a scaled loss.

use std::sync::Arc;

use burn_amp_core::Precision;
use burn_amp_kernels::weight_product;
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy, grads::Gradients};
use burn_backend::{AutodiffBackend, Backend, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{distributed::Trainable, precision, warn::See};

/// Like [`times`](crate::tensor::times), with the factor on the device: an F32 tensor with one element and as many dimensions as `tensor`.
pub(super) fn times_on_device<B: Backend>(
    tensor: FloatTensor<B>,
    factor: FloatTensor<B>,
) -> FloatTensor<B> {
    let tensor = widened::<B>(tensor);
    let factor = precision::cast::<B>(factor, precision::of(&tensor));
    B::float_mul(tensor, factor)
}

fn widened<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let wide = precision::of(&tensor).join(Precision::F32);
    precision::cast::<B>(tensor, wide)
}

/// Runs Burn's backward pass from `scaled`, which was computed from `root`.
///
/// # Panics
///
/// Panics if an earlier backward pass has consumed the graph of `root`, as plain Burn does. Burn checks only the node
/// that the pass starts from, and that of `scaled` is always fresh. So `root` is checked here: if its node were still in
/// the graph, the pass would have consumed the gradient of `root`.
pub(super) fn backward<B: Trainable, C: CheckpointStrategy>(
    root: &Root<B, C>,
    scaled: FloatTensor<Autodiff<B, C>>,
) -> Gradients {
    let grads = pass::<B, C>(scaled);
    assert!(
        root.is_leaf || root.node.grad(&grads).is_none(),
        "the graph of this loss has been consumed: `backward()` was called on it, or on a clone of it, before {}",
        See("a-second-backward-pass")
    );
    grads
}

/// Runs Burn's backward pass. All of the crate's passes are this one.
pub(super) fn pass<B: Trainable, C: CheckpointStrategy>(
    root: FloatTensor<Autodiff<B, C>>,
) -> Gradients {
    weight_product::together::<B>(|| Autodiff::<B, C>::backward(root))
}

/// The node of a loss without its values. It does not keep the graph alive.
pub(super) struct Root<B: Backend, C: CheckpointStrategy> {
    node: FloatTensor<Autodiff<B, C>>,
    /// Whether the loss is itself a leaf, a tensor that requires a gradient: then its gradient is kept, not consumed.
    is_leaf: bool,
}

impl<B: Backend, C: CheckpointStrategy> Root<B, C> {
    pub(super) fn of(root: &FloatTensor<Autodiff<B, C>>) -> Self {
        let mut node = root.clone();
        node.rc = Arc::new(*root.rc);
        Self {
            node,
            is_leaf: Autodiff::<B, C>::float_is_require_grad(root),
        }
    }
}
