//! The kernels of burn-amp, each with a reference in Burn's own ops.
//!
//! A kernel is here because it moves fewer bytes or launches less. [`Kernels`] gives every backend the kernel or the
//! reference:
//!
//! | backend | computes with |
//! |---|---|
//! | `CubeBackend<R, …>`: Cuda, Rocm, Vulkan, Metal, WebGpu | the kernels (feature `cubecl`) |
//! | `Fusion<B>` | the ops of `B`, as operations of the stream, which is not drained (feature `fusion`) |
//! | `Autodiff<B>` | the ops of `B`; those of the second group below are differentiable |
//! | `Flex`, `LibTorch` | the references (features `flex`, `tch`) |
//! | a backend of yours | the references: `impl burn_amp_kernels::Kernels for MyBackend {}` |
//!
//! One folder per kernel: the contract in `mod.rs`, the `#[cube]` code and its launch in `kernel.rs`, the reference in
//! `reference.rs`. Tests are in the suite (`tests/tests/suite/kernels`), where CubeCL compiles everything once, times in
//! `bench kernels`.
//!
//! * for loss scaling: [`finite`], [`unscale`], [`loss_scale`]
//! * low precision in memory, F32 in registers: [`softmax`], [`log_softmax`], [`layer_norm`], [`gelu`], [`cross_entropy`]

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod autodiff;
pub mod cross_entropy;
#[cfg(feature = "cubecl")]
mod cube;
pub mod finite;
#[cfg(feature = "fusion")]
mod fusion;
pub mod gelu;
mod kernels;
pub mod layer_norm;
#[cfg(feature = "cubecl")]
mod lists;
pub mod log_softmax;
pub mod loss_scale;
mod plain;
mod row;
pub mod softmax;
pub mod unscale;

pub use kernels::Kernels;
