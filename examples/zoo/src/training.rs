//! The optimizer that every model is trained with.

use burn::optim::{AdamWConfig, LearningRate};

pub const LEARNING_RATE: LearningRate = 3e-4;

/// AdamW with PyTorch's defaults: Burn's own are ε 1e-5 and a weight decay of 1e-4.
pub fn adamw() -> AdamWConfig {
    AdamWConfig::new()
        .with_beta_1(0.9)
        .with_beta_2(0.999)
        .with_epsilon(1e-8)
        .with_weight_decay(0.01)
}
