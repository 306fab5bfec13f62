//! Burn's backward pass over a scaled loss.

use std::sync::Arc;

use burn_amp_core::Precision;
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy, grads::Gradients};
use burn_backend::{AutodiffBackend, Backend, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{distributed::Trainable, precision};

/// `tensor × factor` in F32, because F16 holds neither 65536 nor its reciprocal; F64 stays F64.
pub(crate) fn times<B: Backend>(tensor: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    let tensor = widened::<B>(tensor);
    if factor == 1.0 {
        tensor
    } else {
        B::float_mul_scalar(tensor, factor.into())
    }
}

/// [`times`] with a factor on the device: an F32 tensor with one element and the rank of `tensor`.
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
/// As plain Burn does if an earlier backward pass has consumed the graph of `root`. Burn looks for the step of the tensor
/// that the pass starts from, and the scaled loss always has one, so the check is repeated for `root` here: its gradient
/// would have been consumed by its step.
pub(super) fn backward<B: Trainable, C: CheckpointStrategy>(
    root: &Root<B, C>,
    scaled: FloatTensor<Autodiff<B, C>>,
) -> Gradients {
    let grads = Autodiff::<B, C>::backward(scaled);
    assert!(
        root.is_leaf || root.node.grad(&grads).is_none(),
        "the graph of this loss has been consumed: `backward()` was called on it, or on a clone of it, before"
    );
    grads
}

/// The node of a loss without its values and without its claim on the graph.
pub(super) struct Root<B: Backend, C: CheckpointStrategy> {
    node: FloatTensor<Autodiff<B, C>>,
    /// Whether the loss requires a gradient itself, so that it keeps the gradient that it is given.
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
