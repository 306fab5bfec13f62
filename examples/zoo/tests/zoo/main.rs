//! The zoo as a whole, in one binary, because most of the tests' time is spent compiling Burn's generic code.
//!
//! * [`overflows`]: the op that reads a number beyond f16 is found
//! * [`planted`]: overflows at random ops are found
//! * [`parameters`]: the models have as many as the published ones
//! * [`recipes`]: what products lose in eight bits
//! * [`replayed`]: a step of each model has the same bits when it is run again
//! * [`reports`]: what runs in which precision does not change from run to run
//! * [`shapes`]: the shapes of the models' outputs
//! * [`training`]: each model in each precision
//! * [`twins`]: the same loss as PyTorch's from the same weights

mod bits;
mod compared;
mod overflows;
mod parameters;
mod planted;
mod recipes;
mod replayed;
mod reports;
mod shapes;
mod training;
mod twins;

/// Mixed precision on Flex, under the policy that was entered: one type, so that the models are compiled for it once.
type Mixed = burn_amp::Autodiff<burn_amp::Amp<burn::backend::Flex, burn_amp_tests::InForce>>;

/// The plain backend on which overflows are planted: Flex, or with the feature `vulkan` Vulkan without Fusion.
#[cfg(not(feature = "vulkan"))]
type Plain = burn::backend::Flex;

#[cfg(feature = "vulkan")]
type Plain = burn::backend::wgpu::CubeBackend<burn::backend::wgpu::WgpuRuntime, f32, i32, u8>;
