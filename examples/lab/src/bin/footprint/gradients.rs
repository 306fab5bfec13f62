//! Measures the error of gradients against those that PyTorch computed in F64, from the same weights and batch.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail};
use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    prelude::*,
    tensor::backend::AutodiffBackend,
};
use serde::{Deserialize, Serialize};
use zoo::{Example, weights};

use crate::subject::Subject;

/// The passes after which an overflow of the scaled loss is given up; each halves the scale.
const ATTEMPTS: usize = 24;

/// The share of all gradients' norm below which a parameter's gradient counts as zero: that of a bias before a softmax,
/// or before a norm, is zero but for rounding.
const NEGLIGIBLE: f64 = 1e-6;

/// Relative errors, in the 2-norm.
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
type Gradients = BTreeMap<String, Vec<f64>>;

/// Returns the error of the subject's gradients on `B`.
///
/// # Errors
///
/// Returns an error if a file of the subject cannot be read or does not fit it, if a gradient is missing, or if the
/// scaled loss overflows at every scale.
pub fn error<B: AutodiffBackend, S: Subject>(
    subject: &S,
    folder: &Path,
    name: &str,
) -> Result<GradientError> {
    let path = |what: &str| folder.join(format!("{name}-tiny.{what}.safetensors"));
    let device = Default::default();
    let load = |path: &Path| weights::load::<B, _>(path, subject.init::<B>(&device));

    let net = load(&path("weights"))?;
    let example = Example::open(&path("example"))?;
    let ours = computed::<B, S>(subject, &net, &example)?;

    let mut reference = Parameters::default();
    load(&path("gradients"))?.visit(&mut reference);
    let input = Example::open(&path("gradients"))?.data("input");
    let mut exact = reference.found;
    exact.extend(
        input
            .ok()
            .map(|data| ("input".to_owned(), data.iter::<f64>().collect())),
    );
    relative(&ours, &exact)
}

fn computed<B: AutodiffBackend, S: Subject>(
    subject: &S,
    net: &S::Net<B>,
    example: &Example,
) -> Result<Gradients> {
    for _ in 0..ATTEMPTS {
        let batch = subject.read_batch::<B>(example, &Default::default())?;
        let grads = subject.loss(net, &batch).backward();
        let input = subject.input_gradient(&batch, &grads);
        let mut found = Computed {
            gradients: GradientsParams::from_grads(grads, net),
            names: Names::default(),
            found: Gradients::new(),
        };
        net.visit(&mut found);
        let mut found = found.found;
        found.extend(input.map(|data| ("input".to_owned(), data.iter::<f64>().collect())));
        let finite = found.values().flatten().all(|value| value.is_finite());
        if !found.is_empty() && finite {
            return Ok(found);
        }
    }
    bail!("the scaled loss overflowed {ATTEMPTS} times");
}

/// Compares gradients with the exact ones.
fn relative(ours: &Gradients, exact: &Gradients) -> Result<GradientError> {
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let total = exact
        .values()
        .map(|values| norm(values).powi(2))
        .sum::<f64>()
        .sqrt();
    let mut squares = 0.0;
    let mut largest = (0.0, "");
    for (name, exact) in exact {
        let size = norm(exact);
        if size == 0.0 {
            continue; // the loss does not depend on it
        }
        let ours = ours
            .get(name)
            .with_context(|| format!("no gradient for {name}"))?;
        let differences: Vec<f64> = ours.iter().zip(exact).map(|(x, y)| x - y).collect();
        let difference = norm(&differences);
        squares += difference * difference;
        if size > NEGLIGIBLE * total && difference / size > largest.0 {
            largest = (difference / size, name);
        }
    }
    Ok(GradientError {
        overall: squares.sqrt() / total,
        largest: largest.0,
        parameter: largest.1.to_owned(),
    })
}

/// The name of the parameter that is visited.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn name(&self) -> String {
        self.0.join(".")
    }
}

/// Collects the gradients of a net's parameters.
struct Computed {
    gradients: GradientsParams,
    names: Names,
    found: Gradients,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Computed {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.names.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(param.id) {
            let values = gradient.into_data().iter::<f64>().collect();
            self.found.insert(self.names.name(), values);
        }
    }
}

/// Collects the values of a net's parameters, without the statistics of norms.
#[derive(Default)]
struct Parameters {
    names: Names,
    found: Gradients,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Parameters {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.names.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if param.is_require_grad() {
            let values = param.val().into_data().iter::<f64>().collect();
            self.found.insert(self.names.name(), values);
        }
    }
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
        let ours = gradients([("a", vec![3.0, 0.3]), ("b", vec![0.0, 4.4])]);
        let error = relative(&ours, &exact).unwrap();
        assert!((error.overall - 0.1).abs() < 1e-12, "{error:?}");
        assert!((error.largest - 0.1).abs() < 1e-12, "{error:?}");

        let ours = gradients([("a", vec![3.0, 0.6]), ("b", vec![0.0, 4.0])]);
        assert_eq!(relative(&ours, &exact).unwrap().parameter, "a");
    }

    #[test]
    fn a_gradient_that_is_zero_but_for_rounding_is_no_measure() {
        let exact = gradients([("a", vec![1.0]), ("b", vec![1e-9])]);
        let ours = gradients([("a", vec![1.5]), ("b", vec![1e-3])]);
        assert_eq!(relative(&ours, &exact).unwrap().parameter, "a");
    }

    #[test]
    fn a_missing_gradient_is_an_error() {
        let exact = gradients([("a", vec![1.0]), ("b", vec![1.0])]);
        let mut ours = exact.clone();
        ours.remove("b");
        let error = relative(&ours, &exact).unwrap_err();
        assert_eq!(error.to_string(), "no gradient for b");
    }
}
