//! A program that asks for a step.

use std::path::PathBuf;

use crate::{backend::Amped, policy::Context};

/// Writes the next step on a device to a file, for [`replay`](super::replay()) and [`compare`](super::compare()): the calls
/// from now on to the next backward pass, and that pass. `replay.output` and `replay.step` in `amp.toml` do the same without a
/// change to the program.
///
/// The values of parameters, inputs and random tensors are in it, unless `replay.with_values` is false. A file that cannot be
/// written is a warning.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("step.safetensors");
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
///
/// let device = Default::default();
/// burn_amp::replay::write_next_step::<B>(&device, &file);
/// let weight = Tensor::<B, 2>::ones([2, 2], &device).require_grad();
/// weight.clone().matmul(weight).sum().backward();
///
/// let step = burn_amp::replay::Step::read(&file)?;
/// let ops: Vec<_> = step.calls.iter().map(|call| &*call.op).collect();
/// assert_eq!(ops, ["float_matmul", "float_sum"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see [`effective_config`](crate::effective_config).
pub fn write_next_step<A: Amped>(device: &A::Device, file: impl Into<PathBuf>) {
    Context::<A::Plain>::of::<A::Source>(device)
        .recorder
        .ask(file.into());
}
