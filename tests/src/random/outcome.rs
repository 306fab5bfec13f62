//! What a program computed, and what may differ between two runs.

use burn_backend::TensorData;

/// What a program computed: each value that it read, the gradients and the parameters, with their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub results: Vec<(String, TensorData)>,
    /// The number of results of the first pass over the steps.
    pub first_pass: usize,
    /// The loss scale of each backward pass.
    pub scales: Vec<f64>,
    /// Whether the gradients overflowed at every loss scale. The program then ends early.
    pub overflowed: bool,
}

/// What may differ between two runs that compute the same.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// Runs an unrelated backward pass halfway through the steps.
    pub disturbed: bool,
    /// The loss scale of each backward pass, for subjects without a scale of their own.
    pub scales: Vec<f64>,
}
