//! The two designs of the net that are trained.

use burn::tensor::backend::Backend;
use zoo::{
    Net,
    models::gpt::{Gpt, GptConfig},
};

use crate::net::UnitGpt;

/// The step that a loss belongs to.
pub struct Step {
    /// The number of batches in a step, as with accumulation. The mean over all divides the loss of each by it.
    pub parts: u32,
    /// The number of tokens in the batch.
    pub tokens: usize,
    /// The number of different tokens.
    pub classes: usize,
}

/// A design of the net.
pub trait Design<B: Backend>: Net<B, Model = GptConfig> {
    /// A step changes a parameter by about one percent of its size.
    const LEARNING_RATE: f64;

    /// The factor on the mean loss of a batch before the backward pass.
    fn factor(step: &Step) -> f64;
}

impl<B: Backend> Design<B> for Gpt<B> {
    const LEARNING_RATE: f64 = 1e-3;

    fn factor(step: &Step) -> f64 {
        1.0 / f64::from(step.parts)
    }
}

impl<B: Backend> Design<B> for UnitGpt<B> {
    const LEARNING_RATE: f64 = 1e-2;

    /// The gradients of the logits of one token, of which all but one are `1 / classes` at first, become near 1.
    fn factor(step: &Step) -> f64 {
        let classes = step.classes as f64;
        step.tokens as f64 * classes / (classes - 1.0).sqrt()
    }
}
