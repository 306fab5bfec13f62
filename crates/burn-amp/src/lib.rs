//! Automatic mixed precision for [Burn](https://burn.dev) 0.21.
//!
//! Change the backend type, keep the model, the loop, the optimizer and the checkpoints:
//!
//! ```
//! use burn::backend::Flex;
//! use burn_amp::{Amp, Autodiff};
//!
//! type B = Autodiff<Amp<Flex>>; // was: burn::backend::Autodiff<Flex>
//! ```
//!
//! The way of one op: its row in `burn_amp_core`'s table, [`cast::forward`] makes it a method, [`cast::call`] decides the casts,
//! the inner backend computes. The way of one training step: [`autodiff`] scales the loss, runs Burn's backward pass,
//! checks the gradients of all [`leaf`]s and moves the [`scaler`]; gradients are handed out unscaled, or not at all. With
//! `loss_scale.sync = false` the scale stays on the device: [`deferred`].
//!
//! * [`Amp`], [`Autodiff`]: the backends
//! * [`AmpTensor`]: what is stored and what the model sees; [`storage_dtype`] tells
//! * [`PolicySource`], [`Config`], [`init`], [`configure`]: where the policy comes from
//! * [`full_precision`]: a scope in which the policy is off
//! * [`loss_scale`]: the loss scale as it stands
//! * [`observe`](fn@observe): told of every cast
//! * [`Kernels`]: what a backend must be, of `burn-amp-kernels`
//!
//! For who wants more than the swap:
//!
//! * [`optim`]: master weights, an optimizer and a scheduler that know of the loss scale, clipping, `GradScaler`
//! * [`cast_params`]: presets `o2` and `o3`; [`memory`]: what parameters cost
//! * [`LossScaleRecord`]: the loss scale in a checkpoint
//! * [`ranks`]: data-parallel training
//! * `metric` (feature `train`): metrics for burn-train's dashboard

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the map of the crate names its private modules"
)]
#![recursion_limit = "256"]

mod backend;
mod cast;
mod convert;
mod distributed;
mod graph;
mod loss_scale;
pub mod memory;
#[cfg(feature = "train")]
pub mod metric;
mod ops;
pub mod optim;
mod policy;
pub mod ranks;
mod setup;
mod step;
mod tensor;
mod warn;

pub use backend::{Amp, AmpBackend, Autodiff, WithTape};
pub use burn_amp_core::{
    Class, Compute, Config, ConfigError, Dtype, DynamicLossScale, LossScaleConfig, LossScaleMode,
    LossScaling, Op, Outcome, Preset,
};
pub use burn_amp_kernels::Kernels;
pub use cast::observe::{CastCounter, Observer, observe};
pub use cast::scope::full_precision;
pub use convert::{cast_params, cast_params_to};
pub use distributed::Trainable;
pub use graph::{Graph, NoGraph, Tape};
pub use loss_scale::{LossScale, LossScaleRecord, Overflow, Skip};
pub use policy::{FromFile, PolicySource, SetupError};
pub use setup::{configure, init, loss_scale, storage_dtype};
pub use step::Gradients;
pub use tensor::AmpTensor;
