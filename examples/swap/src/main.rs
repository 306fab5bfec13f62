//! The swap, in one file: a small model, a training loop written by hand, and the backend type that makes it mixed.
//!
//! ```text
//! cargo run --release -p swap
//! BURN_AMP_COMPUTE=bf16 cargo run --release -p swap
//! BURN_AMP_COMPUTE=f16 BURN_AMP_LOSS_SCALE_INIT=1e12 BURN_AMP_LOSS_SCALE_MAX=1e12 cargo run --release -p swap
//! ```

use burn::{
    backend::Flex,
    nn::{Linear, LinearConfig, Relu, loss::CrossEntropyLossConfig},
    optim::{AdamConfig, GradientsParams, Optimizer},
    prelude::*,
};

// Before:
// type B = burn::backend::Autodiff<Flex>;
// After:
type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
fn main(){}
