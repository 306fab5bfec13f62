//! Relative errors of gradients.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The share of all gradients' norm below which a parameter's gradient counts as zero: that of a bias before a softmax,
/// or before a norm, is zero but for rounding.
const NEGLIGIBLE: f64 = 1e-6;

/// Relative errors in the 2-norm, each the root mean square over several draws of weights and batch.
///
/// One draw says little about a net with ReLU: its error is that of the few units whose sign rounding changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientError {
    /// Over all parameters together.
    pub overall: f64,
    /// The largest of a single parameter, relative to that parameter's gradient.
    pub largest: f64,
    /// The name of that parameter.
    pub parameter: String,
}

/// Gradients by the names of their parameters; `input` is that of the input.
pub type Gradients = BTreeMap<String, Vec<f64>>;

/// The relative errors of one draw.
#[derive(Debug)]
pub struct Relative {
    overall: f64,
    /// Of the parameters whose gradients are not negligible.
    parameters: BTreeMap<String, f64>,
}

impl Relative {
    /// Compares gradients with the exact ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a gradient is missing.
    pub fn new(ours: &Gradients, exact: &Gradients) -> Result<Self> {
        let total = norm(exact.values().flatten().copied());
        let mut differences = Vec::new();
        let mut parameters = BTreeMap::new();
        for (name, exact) in exact {
            let size = norm(exact.iter().copied());
            if size == 0.0 {
                continue; // the loss does not depend on it
            }
            let ours = ours
                .get(name)
                .with_context(|| format!("no gradient for {name}"))?;
            let difference = norm(ours.iter().zip(exact).map(|(x, y)| x - y));
            differences.push(difference);
            if size > NEGLIGIBLE * total {
                parameters.insert(name.clone(), difference / size);
            }
        }
        let overall = norm(differences) / total;
        Ok(Self {
            overall,
            parameters,
        })
    }
}

/// Returns the errors over several draws.
pub fn over_draws(draws: &[Relative]) -> GradientError {
    let mut parameters: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, error) in draws.iter().flat_map(|draw| &draw.parameters) {
        parameters.entry(name).or_default().push(*error);
    }
    let errors = parameters
        .iter()
        .map(|(name, errors)| (root_mean_square(errors), *name));
    let (largest, parameter) = errors
        .max_by(|x, y| x.0.total_cmp(&y.0))
        .unwrap_or_default();
    let overall: Vec<f64> = draws.iter().map(|draw| draw.overall).collect();
    GradientError {
        overall: root_mean_square(&overall),
        largest,
        parameter: parameter.to_owned(),
    }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values
        .into_iter()
        .map(|value| value * value)
        .sum::<f64>()
        .sqrt()
}

fn root_mean_square(values: &[f64]) -> f64 {
    norm(values.iter().copied()) / (values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradients(values: [(&str, Vec<f64>); 2]) -> Gradients {
        values
            .map(|(name, values)| (name.to_owned(), values))
            .into()
    }

    #[test]
    fn the_error_is_relative_and_the_worst_parameter_is_named() {
        let exact = gradients([("a", vec![3.0, 0.0]), ("b", vec![0.0, 4.0])]);
        let even = gradients([("a", vec![3.0, 0.3]), ("b", vec![0.0, 4.4])]);
        let even = Relative::new(&even, &exact).unwrap();
        assert!((even.overall - 0.1).abs() < 1e-12, "{even:?}");
        assert!((even.parameters["a"] - 0.1).abs() < 1e-12, "{even:?}");

        let ours = gradients([("a", vec![3.0, 0.7 * 3.0]), ("b", vec![0.0, 4.0])]);
        let error = over_draws(&[even, Relative::new(&ours, &exact).unwrap()]);
        assert_eq!(error.parameter, "a");
        assert!(
            (error.largest - 0.5).abs() < 1e-12,
            "the root mean square of 0.1 and 0.7: {error:?}"
        );
    }

    #[test]
    fn a_gradient_that_is_zero_but_for_rounding_is_no_measure() {
        let exact = gradients([("a", vec![1.0]), ("b", vec![1e-9])]);
        let ours = gradients([("a", vec![1.5]), ("b", vec![1e-3])]);
        let error = Relative::new(&ours, &exact).unwrap();
        assert_eq!(error.parameters.keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_missing_gradient_is_an_error() {
        let exact = gradients([("a", vec![1.0]), ("b", vec![1.0])]);
        let mut ours = exact.clone();
        ours.remove("b");
        let error = Relative::new(&ours, &exact).unwrap_err();
        assert_eq!(error.to_string(), "no gradient for b");
    }
}
