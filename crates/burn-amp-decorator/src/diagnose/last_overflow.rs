//! The op with which the last overflow began.

use std::sync::Arc;

use burn_amp_core::overflow::Cause;

use crate::{backend::Amped, policy::Context};

/// Returns the op with which the last overflow of backend `A` on `device` began; `None` if none was found.
///
/// `overflow.locate` says in which steps it is looked for: in those after a skipped one (`on_skip`), or in all of them
/// (`always`). [`Skip::cause`](crate::Skip::cause) has that of a skipped step; without loss scaling no step is
/// skipped, and this is the way to ask.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource, Locate, OverflowConfig};
/// # struct InF16;
/// # impl ConfigSource for InF16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         let overflow = OverflowConfig { locate: Locate::Always, ..Default::default() };
/// #         Ok(Config { compute: Compute::F16, overflow, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InF16>>;
///
/// let device = Default::default();
/// let weight = Tensor::<B, 2>::full([2, 2], 300.0, &device).require_grad();
/// weight.clone().matmul(weight).sum().backward();
/// let cause = burn_amp::diagnose::last_overflow::<B>(&device).unwrap();
/// assert_eq!(cause.op, "float_matmul"); // 2 · 300 · 300 is more than 65504
/// println!("{cause}");
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
pub fn last_overflow<A: Amped>(device: &A::Device) -> Option<Arc<Cause>> {
    Context::<A::Plain>::of::<A::Source>(device).locator.last()
}
