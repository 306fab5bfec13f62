//! A backward pass that is repeated until its gradients are finite.

use burn::tensor::{Tensor, backend::AutodiffBackend};
use burn_amp_core::{LossScaling, Outcome};

use burn_amp_decorator::Gradients;
use burn_amp_decorator::{Amped, Context};

/// Computes a loss and runs its backward pass, again and again at smaller loss scales until the gradients are finite.
///
/// A training step need not do that: a step that overflows is skipped, and the next batch takes its place. This is for
/// passes that cannot be left out, such as those of L-BFGS, whose line search expects gradients of every point, or of a
/// saliency map:
///
/// ```
/// # use burn::{backend::Flex, nn::{Initializer, Linear, LinearConfig}, optim::{GradientsParams, LBFGSConfig}, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InF16;
/// # impl ConfigSource for InF16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::F16, ..Default::default() })
/// #     }
/// # }
/// use burn_amp::scaling::backward_until_finite;
///
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InF16>>;
///
/// let device = Default::default();
/// let model: Linear<B> = LinearConfig::new(2, 1).with_initializer(Initializer::Zeros).init(&device);
/// let x = Tensor::<B, 2>::from_floats([[1.0, 2.0], [0.0, 1.0]], &device);
/// let mut optimizer = LBFGSConfig::new().init::<B>();
///
/// let (_model, _loss) = optimizer.step(0.1, model, |model: Linear<B>| {
///     let mut value = 0.0;
///     let grads = backward_until_finite(|| {
///         let loss = (model.forward(x.clone()) - 1.0).square().sum() * 1e4;
///         value = f64::from(loss.clone().into_scalar());
///         loss
///     });
///     (value, GradientsParams::from_grads(grads, &model))
/// });
/// ```
///
/// The overflowed passes count as skipped steps, but their gradients were never asked for, so no optimizer skips a step
/// because of them. Random ops, such as dropout, draw again in each repetition. If the loss is not scaled, or by a static
/// scale, the pass is made once.
///
/// # Panics
///
/// Panics as every backward pass does if the gradients overflow again and again at the smallest scale.
pub fn backward_until_finite<A, const D: usize>(
    mut loss: impl FnMut() -> Tensor<A, D>,
) -> A::Gradients
where
    A: Amped + AutodiffBackend<Gradients = Gradients<<A as Amped>::Plain>>,
{
    loop {
        let loss = loss();
        let context = Context::<A::Plain>::of::<A::Source>(&loss.device());
        let rule = context.loss_scaling();
        let grads = loss.backward();
        match (rule, grads.outcome()) {
            (LossScaling::Dynamic(_), Outcome::Overflowed) => {}
            (LossScaling::NoScale | LossScaling::Static(_), _) | (_, Outcome::Finite) => {
                return grads;
            }
        }
    }
}
