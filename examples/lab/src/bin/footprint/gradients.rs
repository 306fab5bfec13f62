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

use crate::{pytorch::PyTorch, subject::Subject};

/// The passes after which an overflow of the scaled loss is given up; each halves the scale.
const ATTEMPTS: usize = 24;

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
type Gradients = BTreeMap<String, Vec<f64>>;

/// Returns the error of the subject's gradients on `B`, over the draws in a folder of PyTorch's.
///
/// # Errors
///
/// Returns an error if a file of the subject cannot be read or does not fit it, if a gradient is missing, or if the
/// scaled loss overflows at every scale.
pub fn error<B: AutodiffBackend, S: Subject>(
    subject: &S,
    pytorch: &PyTorch,
    name: &str,
) -> Result<GradientError> {
    let draws = (0..pytorch.draws).map(|draw| {
        let folder = pytorch.folder.join(draw.to_string());
        of_draw::<B, S>(subject, &folder, name)
    });
    Ok(over_draws(&draws.collect::<Result<Vec<_>>>()?))
}

fn of_draw<B: AutodiffBackend, S: Subject>(
    subject: &S,
    folder: &Path,
    name: &str,
) -> Result<Relative> {
    let path = |what: &str| folder.join(format!("{name}-tiny.{what}.safetensors"));
    let device = Default::default();
    let load = |path: &Path| weights::load::<B, _>(path, subject.init::<B>(&device));

    let net = load(&path("weights"))?;
    let example = Example::open(&path("example"))?;
    let ours = computed::<B, S>(subject, &net, &example)?;

    let mut reference = Parameters::default();
    load(&path("gradients"))?.visit(&mut reference);
    let mut exact = reference.found;
    let input = Example::open(&path("gradients"))?.data("input");
    exact.extend(
        input
            .ok()
            .map(|data| ("input".to_owned(), data.iter().collect())),
    );
    Relative::new(&ours, &exact)
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
        found.extend(input.map(|data| ("input".to_owned(), data.iter().collect())));
        let finite = found.values().flatten().all(|value| value.is_finite());
        if !found.is_empty() && finite {
            return Ok(found);
        }
    }
    bail!("the scaled loss overflowed {ATTEMPTS} times");
}

/// The relative errors of one draw.
#[derive(Debug)]
struct Relative {
    overall: f64,
    /// Of the parameters whose gradients are not negligible.
    parameters: BTreeMap<String, f64>,
}

impl Relative {
    /// Compares gradients with the exact ones.
    fn new(ours: &Gradients, exact: &Gradients) -> Result<Self> {
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

fn over_draws(draws: &[Relative]) -> GradientError {
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
