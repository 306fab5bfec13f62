//! Takes the place of `burn-autodiff` 0.22.1 by `[patch.crates-io]`: the same public API, with automatic mixed precision
//! in front of Burn's own autodiff.
//!
//! * `backend`: [`Autodiff`], the backend type that burn-dispatch names
//! * `known`: a plain backend as burn-amp knows it
//! * `forwarded`: the ops of both, generated from burn-amp's table
//! * `tensor`: a tensor in a graph
//! * [`ops`]: with which extensions write nodes of a graph

mod backend;
mod forwarded;
mod known;
pub mod ops;
mod tensor;

pub use backend::Autodiff;
pub use burn_autodiff_engine::{NodeId, checkpoint, distributed, grads};
pub use tensor::AutodiffTensor;

/// Tells the crate `burn-amp` that this crate is in the program: Burn's own has no such constant.
#[doc(hidden)]
pub const IS_BURN_AMP: bool = true;
