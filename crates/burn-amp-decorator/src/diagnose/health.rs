//! What was seen of the gradients and updates of a run.

use burn_amp_core::health::Look;

use crate::{backend::Amped, policy::Context};

/// Returns the steps of optimizers on a device that were looked at, as `health.every` in `amp.toml` says: of each parameter, how
/// many elements of its gradient are at an end of the range of the compute dtype, and how many updates were lost.
///
/// Of a long run it returns looks that are spread over all of it.
///
/// ```
/// # use burn::{backend::Flex, nn::LinearConfig, optim::{GradientsParams, Optimizer, SgdConfig}, tensor::Tensor};
/// # struct Watched;
/// # impl burn_amp::config::ConfigSource for Watched {
/// #     fn config() -> Result<burn_amp::config::Config, burn_amp::config::ConfigError> {
/// #         Ok(burn_amp::config::Config { health: burn_amp::config::HealthConfig { every: 1 }, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, Watched>>;
///
/// let device = Default::default();
/// let model = LinearConfig::new(2, 2).init::<B>(&device);
/// let mut optimizer = burn_amp::optim::AmpOptimizer::new(SgdConfig::new()).init();
/// let grads = model.forward(Tensor::<B, 2>::ones([1, 2], &device)).sum().backward();
/// let grads = GradientsParams::from_grads(grads, &model);
/// let model = optimizer.step(0.1, model, grads);
///
/// let looks = burn_amp::diagnose::health::<B>(&device);
/// assert_eq!((looks[0].step, looks[0].parameters[0].update.lost), (1, 0));
/// # drop(model);
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`](crate::effective_config).
pub fn health<A: Amped>(device: &A::Device) -> Vec<Look> {
    Context::<A::Plain>::of::<A::Source>(device).health.looks()
}
