//! A scaled backward pass that waits for its outcome.

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{AutodiffBackend, tensor::FloatTensor};

use super::{
    finite,
    gradients::{Gradients, Pass},
    times,
};
use crate::{
    distributed::Trainable,
    policy::{Context, PolicySource},
    ranks,
};

/// Scales the loss by `scale`, runs Burn's backward pass, checks the gradients and moves the scale.
///
/// Incurs one device-to-host read for each device that has parameters.
///
/// # Panics
///
/// If the gradients overflow at the minimum scale, or if the ranks of a data-parallel run cannot agree.
pub(super) fn backward<B: Trainable, P: PolicySource, C: CheckpointStrategy>(
    root: FloatTensor<Autodiff<B, C>>,
    context: &'static Context<B>,
    scale: f32,
) -> Gradients<B> {
    let root = times::<Autodiff<B, C>>(root, scale);
    let mut inner = Autodiff::<B, C>::backward(root);
    let gradients = finite::leaf_gradients::<B, P>(&inner);
    let overflowed = finite::overflowed(&gradients, scale, &mut inner);
    let decision = ranks::decide(&context.scaling, !overflowed.is_empty());
    let count = gradients.iter().flatten().count();
    let outcome = context
        .scaling
        .host
        .update(scale, overflowed, count, decision);
    Gradients {
        inner,
        pass: Pass::Checked { scale, outcome },
    }
}
