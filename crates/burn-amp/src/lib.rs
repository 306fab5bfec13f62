//! Automatic mixed precision for [Burn](https://burn.dev) 0.21.
//!
//! Change the backend type, and keep the model, the training loop, the optimizer and the checkpoints:
//!
//! ```
//! use burn::backend::Flex;
//! use burn_amp::{Amp, Autodiff};
//!
//! type B = Autodiff<Amp<Flex>>; // was: burn::backend::Autodiff<Flex>
//! ```
//!
//! From then on each op runs in the precision that a cast policy gives it: bf16 or f16 where that is safe, f32 where it
//! must be. F16 gradients are protected by dynamic loss scaling inside `backward()`, and a step that overflows is
//! skipped exactly. `amp.toml` in the working directory, or [`configure`], changes the policy. The
//! book, `book/src/SUMMARY.md` in the repository, explains it in chapters.
//!
//! | to | use |
//! |---|---|
//! | train or evaluate | [`Autodiff<Amp<B>>`](Autodiff), or [`Amp<B>`](Amp) |
//! | configure in code | [`configure`], with the types in [`config`]; [`effective_config`] returns the configuration in force |
//! | run a block of code, or store a tensor, in f32 | [`full_precision`], [`to_f32`] |
//! | see the loss scale, and why a step was skipped; start afresh | [`loss_scale()`], [`scaling`] |
//! | train a model per thread | [`scaling::own_loss_scale`] |
//! | repeat a backward pass until its gradients are finite | [`scaling::backward_until_finite`] |
//! | see the dtype in which a tensor is stored | [`storage_dtype`] |
//! | follow any configuration in the optimizer, clip gradients, resume exactly | [`optim::AmpOptimizer`] |
//! | store parameters in half precision | [`cast_params`], [`cast_params_to`], [`memory`] |
//! | train on several devices | [`ranks`] |
//! | watch the loss scale in burn-train's dashboard | `metric` (feature `train`) |
//! | see what ran in which precision, where and why | [`diagnose`] |
//! | write a step to a file, run it again, compare it with another backend | [`replay`] |
//! | compare the bits of a run with a file, in a test | [`golden`] |
//! | count casts | [`observe`] |
//! | write custom ops, your own backend, or code that is generic over backends | [`AmpBackend`], [`Amp::custom_op`], [`extend`] |
//!
//! # Coming from PyTorch
//!
//! | PyTorch | burn-amp |
//! |---|---|
//! | `torch.autocast("cuda")` around the forward pass | the type [`Autodiff<Amp<Cuda>>`](Autodiff) |
//! | `autocast(dtype=torch.bfloat16)` | `compute = "bf16"` in `amp.toml` |
//! | `autocast(enabled=False)`, `tensor.float()` | [`full_precision`], [`to_f32`] |
//! | `GradScaler().scale(loss).backward()`, `step`, `update` | `loss.backward()` and the optimizer's `step`, unchanged |
//! | `GradScaler(init_scale=…, growth_interval=…)` | `[loss_scale]` in `amp.toml`; `search = false` makes the first scale PyTorch's, too |
//! | a `GradScaler` per model | [`scaling::own_loss_scale`], per thread |
//! | `scaler.get_scale()` | [`loss_scale::<B>(&device).scale()`](scaling::LossScale::scale) |
//! | `scaler.unscale_(optimizer)`, `clip_grad_norm_` | [`optim::AmpOptimizer::with_clipping`]; gradients are unscaled already |
//! | `scaler.state_dict()` | in the record of an [`optim::AmpOptimizer`], or [`scaling::LossScaleRecord`] |
//! | a `GradScaler` that you call yourself | [`optim::GradScaler`] |
//! | `custom_fwd(cast_inputs=…)` | [`Amp::custom_op`] |
//! | `model.half()` with f32 master weights (Apex O2) | `preset = "o2"` with [`cast_params`] and [`optim::AmpOptimizer`] |

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the docs of private folders list their files"
)]
#![recursion_limit = "256"]

#[cfg(feature = "collective")]
mod collective;
mod convert;
pub mod golden;
mod gradients;
pub mod memory;
#[cfg(feature = "train")]
pub mod metric;
mod modules;
mod names;
pub mod optim;
mod storage;
mod until_finite;

#[doc(hidden)]
pub use burn_amp_decorator::thresholds;
pub use burn_amp_decorator::{
    Amp, Autodiff, configure, effective_config, full_precision, loss_scale, replay,
};
pub use burn_amp_kernels::AmpBackend;
pub use convert::{cast_params, cast_params_to};
pub use storage::{storage_dtype, to_f32};

/// The configuration: the contents of `amp.toml` as types, and the sources it is read from.
pub mod config {
    pub use burn_amp_core::{
        Class, Compute, Config, ConfigError, DynamicLossScale, GradientsConfig, HealthConfig, Key,
        LossScaleConfig, LossScaleMode, LossScaling, Op, OverflowConfig, ParamPattern, Place,
        Precision, Preset, ReplayConfig, ReportConfig, Saved, Source, overflow::Locate,
    };

    pub use burn_amp_decorator::{ConfigSource, FromFile, InForceBy, SetupError};
}

/// Gradient scaling: the current loss scale, one for each thread, and the outcome of backward passes.
pub mod scaling {
    pub use burn_amp_core::Outcome;

    pub use burn_amp_decorator::{
        Gradients, LossScale, LossScaleRecord, Overflow, OwnLossScale, ParamName, Skip,
        own_loss_scale,
    };

    pub use crate::{names::name_parameters, until_finite::backward_until_finite};
}

/// A hook that reports every cast that the decorator makes.
pub mod observe {
    pub use burn_amp_decorator::{CastCounter, Observer, set_observer};
}

/// Bounds and types for custom ops, for backends of your own, and for code that is generic over them.
pub mod extend {
    #[doc(hidden)]
    pub use burn_amp_decorator::internal::Kind;
    pub use burn_amp_decorator::{
        AmpTensor, Amped, Graph, NoGraph, Tape, Trainable, Trains, WithTape,
    };
}

/// What ran in which precision, and where it overflowed.
pub mod diagnose {
    pub use burn_amp_decorator::diagnose::*;

    pub use crate::gradients::{GradientError, compare_gradients};
}

/// Data-parallel training: either all ranks skip a step, or none does.
pub mod ranks {
    pub use burn_amp_decorator::ranks::*;

    #[cfg(feature = "collective")]
    pub use crate::collective::Collective;
}
