//! The kernels of burn-amp, each with a reference implementation in Burn's own ops.
//!
//! An op is in this crate because a kernel for it moves fewer bytes, or needs fewer launches, than Burn's ops.
//! [`AmpBackend`] gives every backend either the kernel or the reference:
//!
//! | backend | computes with |
//! |---|---|
//! | `CubeBackend<R, …>`: Cuda, Rocm, Vulkan, Metal, WebGpu | the kernels (feature `cubecl`) |
//! | `Fusion<B>` | what `B` computes with, as operations of Fusion's stream, without draining it (feature `fusion`) |
//! | `Autodiff<B>` | what `B` computes with; the second group below is differentiable |
//! | `Flex`, `LibTorch` | the references (features `flex`, `tch`) |
//! | a backend of yours | the references: `impl burn_amp_kernels::AmpBackend for MyBackend {}` |
//!
//! * for loss scaling: [`finite`], [`unscale`], [`loss_scale`]
//! * for the optimizer: [`optimizer`], a step of many parameters in one launch, and [`squares`], the
//!   global norm of their gradients
//! * low precision in memory, F32 in registers: [`softmax`], [`log_softmax`], [`layer_norm`], [`activation`],
//!   [`cross_entropy`], [`attention`], [`embedding`], [`scalar`], [`product`], [`affine`], [`weight_product`], [`convolution`]
//! * for few launches: [`cat`]; for gradients that move no more than they must: [`mod@slice`]
//! * for what eight bits would lose: [`rounded`], a tensor in such a format, and [`simulated`], products of them
//! * for what a graph keeps: [`sign_mask`], [`max_pool`], and operands in [`eight_bits`] if they are offered to be [`saved`] so; [`made`] tells how much it is
//! * for reports: [`sample`], a few values of a tensor; [`flushed`], how much of a gradient F16 flushes to zero
//!
//! An op is a struct that implements [`Kernel`], and [`AmpBackend::run`] runs it. Each has a folder: its contract, its
//! reference and its node in a graph in `mod.rs`, the `#[cube]` code and its launch in `kernel.rs`. The floors, from the
//! ground: `tensors`, [`kernel`], `graph` and `cube`, then the ops. The tests are in the workspace's suite
//! (`tests/tests/suite/kernels`), so that CubeCL is compiled once for all of them. `bench kernels` measures each kernel against its reference.

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod activation;
pub mod affine;
pub mod attention;
pub mod cat;
pub mod convolution;
pub mod cross_entropy;
#[cfg(feature = "cubecl")]
mod cube;
pub mod eight_bits;
pub mod embedding;
pub mod finite;
pub mod flushed;
#[cfg(feature = "fusion")]
mod fusion;
mod graph;
#[cfg(any(feature = "flex", feature = "tch"))]
mod host;
pub mod kernel;
pub mod layer_norm;
pub mod log_softmax;
pub mod loss_scale;
pub mod made;
pub mod max_pool;
mod memory;
#[doc(hidden)]
pub mod names;
pub mod optimizer;
mod prelude;
pub mod product;
mod reading;
pub mod rounded;
pub mod sample;
pub mod scalar;
pub mod sign_mask;
pub mod simulated;
pub mod slice;
pub mod softmax;
pub mod squares;
mod sum;
mod tensors;
pub mod unscale;
pub mod weight_product;
mod widen;

pub use graph::saved;
pub use kernel::{AmpBackend, Kernel};
pub use memory::Memory;
pub use reading::Reading;
