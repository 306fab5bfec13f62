//! A scaled backward pass that waits for its outcome.

use burn_amp_core::Outcome;
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::tensor::FloatTensor;

use super::{
    finite,
    gradients::{Gradients, Pass},
    located,
    scaled::{self, Root},
};
use crate::{
    distributed::Trainable,
    loss_scale::{Checked, Scaling},
    policy::{ConfigSource, Context},
    ranks,
    tensor::times,
};

/// Scales the loss by `scale`, runs Burn's backward pass, checks the gradients and moves `scaling`. `id` is the number of
/// the loss in a step that is recorded.
///
/// Incurs one device-to-host read for each device that has gradients.
///
/// # Panics
///
/// Panics if the gradients overflow again and again at the smallest scale, or if the ranks of a data-parallel run cannot agree.
pub(super) fn backward<B: Trainable, P: ConfigSource, C: CheckpointStrategy>(
    root: FloatTensor<Autodiff<B, C>>,
    id: u64,
    context: &'static Context<B>,
    scaling: &'static Scaling<B>,
    scale: f32,
) -> Gradients<B> {
    let node = Root::<B, C>::of(&root);
    let loss = located::loss(context, &root.primitive, id);
    let scaled = times::<Autodiff<B, C>>(root, scale);
    let mut inner = scaled::backward(&node, scaled);
    let cause = located::end_of_step(context, loss, || Some(scale), &inner);
    let gradients = finite::leaf_gradients::<B, P>(&inner);
    let overflowed = finite::overflowed(&gradients, scale, &mut inner);
    let decision = ranks::decide(context, scaling, !overflowed.is_empty());
    let count = gradients.iter().flatten().count();
    // A pass that reached no parameter says nothing about the scale. The ranks of a data-parallel run count it all the
    // same, to stay in step.
    let outcome = if count == 0 && decision.round.is_none() {
        Outcome::Finite
    } else {
        scaling.host.update(Checked {
            scale,
            overflowed,
            gradients: count,
            decision,
            later: 0,
            cause: cause.clone(),
        })
    };
    if outcome == Outcome::Finite {
        // The loss is not finite, and its gradients are.
        located::tell(cause);
    }
    Gradients {
        inner,
        pass: Pass::Checked { scale, outcome },
    }
}
