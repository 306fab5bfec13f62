//! The functions of a device: configure, inspect the configuration and the loss scale.

use std::panic::Location;

use burn_amp_core::Config;

use crate::{
    backend::Amped,
    loss_scale::{LossScale, OwnLossScale},
    policy::{Context, SetupError},
};

/// Returns the configuration in force for backend `A` on `device`, with the compute dtype that was chosen.
///
/// If none is in force yet, the configuration of the backend's source is put in force first.
///
/// Calling it is optional: the first tensor on a device does the same, but panics where this returns an error.
///
/// # Errors
///
/// Returns an error if the configuration is wrong or the device cannot compute in the dtype that it asks for.
pub fn effective_config<A: Amped>(device: &A::Device) -> Result<Config, SetupError> {
    Context::<A::Plain>::try_of::<A::Source>(device).map(Context::effective)
}

/// Puts `config` in force on `device` for backend `A`, instead of the configuration of its source.
///
/// # Errors
///
/// Returns an error if the configuration is wrong, the device cannot compute in the dtype that it asks for, or a policy
/// is in force already: it never changes after the first tensor.
///
/// ```
/// use burn::backend::Flex;
/// use burn_amp::{Amp, Autodiff, config::{Compute, Config}};
///
/// type B = Autodiff<Amp<Flex>>;
///
/// let config = Config { compute: Compute::Bf16, ..Config::default() };
/// burn_amp::configure::<B>(&Default::default(), config)?;
/// # Ok::<(), burn_amp::config::SetupError>(())
/// ```
#[doc(alias("autocast", "set_autocast_dtype"))]
#[track_caller]
pub fn configure<A: Amped>(device: &A::Device, config: Config) -> Result<Config, SetupError> {
    let place = Location::caller();
    Context::<A::Plain>::configure::<A::Source>(device, config, place).map(Context::effective)
}

/// Returns a handle to the loss scale of backend `A` on `device`.
///
/// There is one loss scale for each plain backend, configuration source and device; all threads share it, except those
/// that have [one of their own](crate::own_loss_scale).
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # struct InF16;
/// # impl burn_amp::config::ConfigSource for InF16 {
/// #     fn config() -> Result<burn_amp::config::Config, burn_amp::config::ConfigError> {
/// #         Ok(burn_amp::config::Config { compute: burn_amp::config::Compute::F16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InF16>>;
///
/// let device = Default::default();
/// let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &device).require_grad();
/// let grads = weight.clone().sum().backward();
/// assert_eq!(weight.grad(&grads).unwrap().to_data().to_vec::<f32>().unwrap(), [1.0, 1.0]);
///
/// let scale = burn_amp::loss_scale::<B>(&device);
/// // The search for the first scale has begun at 16, and 16 was not too large.
/// assert_eq!((scale.scale(), scale.steps(), scale.skipped_steps()), (32.0, 1, 0));
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`].
#[doc(alias("GradScaler", "get_scale"))]
pub fn loss_scale<A: Amped>(device: &A::Device) -> LossScale {
    LossScale(Context::<A::Plain>::of::<A::Source>(device).scaling())
}

/// Gives this thread a loss scale of its own for the backward passes of backend `A` on `device`, until the guard is
/// dropped. It starts afresh.
///
/// For threads that train different models: each finds the scale that its own gradients need. Otherwise the smallest
/// scale that one of the models needs is used for all, and a model whose gradients overflow at every scale ends the runs
/// of the others.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let train = |_model: usize| ();
/// std::thread::scope(|scope| {
///     for model in 0..3 {
///         scope.spawn(move || {
///             let _own = burn_amp::scaling::own_loss_scale::<B>(&Default::default());
///             train(model);
///         });
///     }
/// });
/// ```
///
/// * A pass is scaled by the loss scale of the thread that calls `backward()`. Its gradients are unscaled by the scale of
///   their pass, on whichever thread they are taken out.
/// * On this thread [`loss_scale`] returns the handle of the own scale, and an optimizer saves and restores it.
/// * A loss scale is never freed: some hundred bytes for each call.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`].
pub fn own_loss_scale<A: Amped>(device: &A::Device) -> OwnLossScale {
    Context::<A::Plain>::of::<A::Source>(device).own_loss_scale()
}
