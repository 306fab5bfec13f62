//! Compares the gradients of parameters with those in F32.

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    tensor::{Tensor, backend::AutodiffBackend},
};

use burn_amp_decorator::{Amped, Trains, full_precision};

/// How far the gradient of a parameter is from that in F32.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientError {
    /// The path of the parameter.
    pub parameter: String,
    /// The cosine of the angle between the two gradients: 1 if they point the same way; NaN if one of them is all zeros.
    pub cosine: f64,
    /// The L2 norm of the gradient under the policy, relative to that in F32; NaN if that is 0.
    pub norm_ratio: f64,
}

/// Computes the gradients of a model twice, under the policy and in F32, and compares them, the parameters in the order of
/// the module.
///
/// `loss` is called twice; before each time the backend's generator of random numbers is set to the same seed, so that
/// dropout draws the same masks. A parameter without a gradient is left out, as are all if the step overflows: then the
/// list is empty.
///
/// ```
/// # use burn::{backend::Flex, nn::LinearConfig, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InBf16;
/// # impl ConfigSource for InBf16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InBf16>>;
///
/// let device = Default::default();
/// let model = LinearConfig::new(16, 8).init::<B>(&device);
/// let x = Tensor::<B, 2>::full([4, 16], 0.3, &device);
/// let errors = burn_amp::diagnose::compare_gradients(&model, &device, |model| model.forward(x.clone()).square().mean());
/// assert_eq!(errors[0].parameter, "weight");
/// assert!(errors[0].cosine > 0.999);
/// ```
pub fn compare_gradients<B: Amped + Trains, M: AutodiffModule<B>>(
    model: &M,
    device: &B::Device,
    loss: impl Fn(&M) -> Tensor<B, 1>,
) -> Vec<GradientError> {
    const SEED: u64 = 1;

    let gradients = || {
        B::seed(device, SEED);
        let gradients = loss(model).backward();
        let mut collect = ByPath::<B> {
            gradients,
            path: Vec::new(),
            found: Vec::new(),
        };
        model.visit(&mut collect);
        collect.found
    };
    let found = gradients();
    let expected = full_precision(gradients);
    // A gradient that is withheld in one of them is missing there.
    let pairs = found.into_iter().filter_map(|(parameter, found)| {
        let (_, expected) = expected.iter().find(|(path, _)| *path == parameter)?;
        Some(error(parameter, &found, expected))
    });
    pairs.collect()
}

fn error(parameter: String, found: &[f64], expected: &[f64]) -> GradientError {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (norm, expected_norm) = (dot(found, found).sqrt(), dot(expected, expected).sqrt());
    GradientError {
        parameter,
        cosine: dot(found, expected) / (norm * expected_norm),
        norm_ratio: norm / expected_norm,
    }
}

/// The gradients of a module, by the paths of the parameters.
struct ByPath<B: AutodiffBackend> {
    gradients: B::Gradients,
    path: Vec<String>,
    found: Vec<(String, Vec<f64>)>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for ByPath<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = param.val().grad_remove(&mut self.gradients) {
            let values = gradient.into_data().iter::<f64>().collect();
            self.found.push((self.path.join("."), values));
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}
