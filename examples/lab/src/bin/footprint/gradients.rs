//! Measures the error of gradients against those that PyTorch computed in F64, from the same weights and batch.

use std::path::Path;

use anyhow::{Result, bail};
use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    prelude::*,
    tensor::backend::AutodiffBackend,
};
use zoo::{Example, weights};

use crate::{
    pytorch::PyTorch,
    relative::{GradientError, Gradients, Relative, over_draws},
    subject::Subject,
};

/// The passes after which an overflow of the scaled loss is given up; each halves the scale.
const ATTEMPTS: usize = 24;

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
        let found = of_batch::<B, S>(subject, net, &batch);
        let finite = found.values().flatten().all(|value| value.is_finite());
        if !found.is_empty() && finite {
            return Ok(found);
        }
    }
    bail!("the scaled loss overflowed {ATTEMPTS} times");
}

/// Returns the gradients of the subject's first weights and batch, which are the same on each backend.
pub fn drawn<B: AutodiffBackend, S: Subject>(subject: &S) -> Gradients {
    let device = Default::default();
    B::seed(&device, 1);
    let net = subject.init::<B>(&device);
    net.num_params(); // draws the parameters, which are lazy
    of_batch::<B, S>(subject, &net, &subject.batch::<B>(1, &device))
}

fn of_batch<B: AutodiffBackend, S: Subject>(
    subject: &S,
    net: &S::Net<B>,
    batch: &S::Batch<B>,
) -> Gradients {
    let grads = subject.loss(net, batch).backward();
    let input = subject.input_gradient(batch, &grads);
    let mut found = Computed {
        gradients: GradientsParams::from_grads(grads, net),
        names: Names::default(),
        found: Gradients::new(),
    };
    net.visit(&mut found);
    let mut found = found.found;
    found.extend(input.map(|data| ("input".to_owned(), data.iter().collect())));
    found
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
