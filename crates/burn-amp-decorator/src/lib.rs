//! The backend decorator of [burn-amp](https://docs.rs/burn-amp), which programs use instead of this crate.
//!
//! It implements the traits of a Burn backend and of Burn's autodiff, and the step of an optimizer over tensors. It knows no
//! module and no record of a model. burn-amp adds those, and exports what a program needs of this crate.

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the docs of private folders list their files"
)]
#![recursion_limit = "256"]

mod backend;
mod cast;
#[cfg(burn_0_22)]
pub mod device_policy;
pub mod diagnose;
mod distributed;
mod graph;
mod loss_scale;
mod ops;
pub mod optimizer;
mod param_name;
mod policy;
#[doc(hidden)]
pub mod precision;
pub mod ranks;
pub mod replay;
mod setup;
mod site;
mod step;
mod tensor;
#[doc(hidden)]
pub mod thresholds;
#[doc(hidden)]
pub mod warn;
mod watching;

pub use backend::{Amp, Amped, Autodiff, Trains, WithTape};
pub use cast::{
    observe::{CastCounter, Observer, set_observer},
    scope::full_precision,
};
pub use distributed::Trainable;
pub use graph::{Graph, NoGraph, Tape};
pub use loss_scale::{LossScale, LossScaleRecord, Overflow, OwnLossScale, Skip};
pub use param_name::ParamName;
pub use policy::{ConfigSource, Context, FromFile, InForceBy, SetupError};
pub use setup::{configure, effective_config, loss_scale, own_loss_scale};
pub use step::Gradients;
pub use tensor::AmpTensor;
#[cfg(burn_0_22)]
pub use tensor::Facts;

/// What burn-amp's optimizers know of the decorator.
#[doc(hidden)]
pub mod internal {
    #[cfg(not(burn_0_22))]
    pub use crate::graph::join_graphs;
    pub use crate::{
        graph::{Moment, Recorded},
        loss_scale::{DeferredPass, DeviceLossScale, Passes, is_loss_scale, nearest_loss_scale},
        tensor::{Factors, Kind, Parts, Reader, Role, times},
    };
}
