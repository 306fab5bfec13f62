//! What a whole step loses in formats of eight bits and fewer.

use serde::Serialize;

use crate::Precision;

/// The signal to noise of the gradients of a whole step, of all parameters together, in dB, beside F32: a product of its backward
/// pass loses what all before it have lost. `None` if all of the gradients are 0 in F32, or one is not finite, as in a step that
/// overflows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepLosses {
    /// The dtype that the step computes in.
    pub dtype: Precision,
    /// In this dtype, with no recipe.
    pub low: Option<f64>,
    /// With each of [`Recipe::ALL`](crate::formats::Recipe::ALL) simulated.
    pub recipes: Vec<Option<f64>>,
}

impl StepLosses {
    /// The signal to noise, in dB, from which on no training that was measured ended with a loss more than 0.25 % higher, beyond
    /// what its seeds differed by.
    pub const BEARS: f64 = 24.0;

    /// Whether rounding alone leaves the step so little signal in its dtype that recipes cannot be judged by it.
    pub(super) fn is_noisy(&self) -> bool {
        self.low.is_some_and(|low| low < Self::BEARS)
    }

    /// What the step has left in a recipe that it does not bear, in dB, by the recipe's place in the list of all.
    pub(super) fn lost(&self, at: usize) -> Option<f64> {
        self.recipes[at].filter(|found| *found < Self::BEARS && !self.is_noisy())
    }
}
