//! Burn's own autodiff, put together from the user's cargo registry by `build.rs`, and what its neighbours need besides.

#![allow(warnings, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/engine.rs"));

/// A checkpointing strategy that is chosen at run time, so that tensors have one type under all of them.
pub mod chosen;

/// Gradients that are an envelope of others, and tensors of one backend that are those of another.
pub mod envelope;
