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
//! The way of one op: its row in `burn_amp_core`'s table, [`forward`] makes it a method, [`call`] decides the casts,
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
//! * [`convert`]: presets `o2` and `o3`; [`memory`]: what parameters cost
//! * [`LossScaleRecord`]: the loss scale in a checkpoint
//! * [`ranks`]: data-parallel training
//! * `train` (feature): metrics for burn-train's dashboard

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the map of the crate names its private modules"
)]
#![recursion_limit = "256"]

#[macro_use]
mod forward;

mod amp;
mod autodiff;
mod call;
mod context;
mod deferred;
mod distributed;
mod dtype;
mod graph;
mod leaf;
pub mod memory;
mod observe;
mod ops;
pub mod optim;
pub mod ranks;
mod record;
mod scaler;
mod scope;
mod store;
mod tensor;
#[cfg(feature = "train")]
pub mod train;

pub use amp::Amp;
pub use autodiff::Gradients;
pub use burn_amp_core::{
    Class, Compute, Config, ConfigError, Dtype, DynamicLossScale, LossScaleConfig, LossScaleMode,
    LossScaling, Op, Outcome, Preset,
};
pub use burn_amp_kernels::Kernels;
pub use context::{Context, FromFile, PolicySource, SetupError, configure, init};
pub use distributed::Trainable;
pub use graph::{AmpBackend, Autodiff, Graph, NoGraph, Record, Tape};
pub use leaf::Leaf;
pub use observe::{CastCounter, Observer, observe};
pub use record::LossScaleRecord;
pub use scaler::{LossScale, Overflow, Skip, loss_scale};
pub use scope::full_precision;
pub use store::{convert, convert_to};
pub use tensor::{AmpTensor, storage_dtype};
