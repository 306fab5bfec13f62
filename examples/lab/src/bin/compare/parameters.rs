//! A module's parameters: their names and shapes, which of them matrix products read, and which are not finite.

use std::fmt;

use burn::{
    module::{Module, ModuleVisitor, Param},
    prelude::*,
};
use serde::Serialize;

/// The side of a tensor core's tile: a matrix side that is not a multiple of it is padded, or computed without them.
const TILE: usize = 8;

/// A float tensor of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its path in the module, such as `layers.0.weight`.
    pub name: String,
    pub shape: Vec<usize>,
    /// False for the running statistics of a norm.
    #[serde(skip)]
    pub is_trainable: bool,
    /// Whether it is the matrix of a linear layer or the kernel of a convolution; an embedding is looked up.
    #[serde(skip)]
    pub is_matrix: bool,
}

/// Formats the name and shape, such as `fc.weight [64, 10]`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.shape)
    }
}

impl Parameter {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it is a matrix whose features or channels do not fill tiles.
    fn is_odd(&self) -> bool {
        let mut sides = self.shape.iter().take(2);
        self.is_matrix && sides.any(|side| !side.is_multiple_of(TILE))
    }
}

/// Lists the trainable parameters in the order of the module's fields. Does not allocate any of them.
pub fn trainable<B: Backend, M: Module<B>>(module: &M) -> Vec<Parameter> {
    let list = List::<B>::of(module, false).parameters;
    list.into_iter().filter(|it| it.is_trainable).collect()
}

/// The names of all float tensors with an element that is inf or NaN. Incurs one device-to-host read.
pub fn non_finite<B: Backend, M: Module<B>>(module: &M) -> Vec<String> {
    let list = List::<B>::of(module, true);
    if list.finite.is_empty() {
        return Vec::new();
    }
    let finite = Tensor::cat(list.finite, 0).into_data();
    let flagged = list.parameters.into_iter().zip(finite.iter::<bool>());
    let wrong = flagged.filter(|(_, finite)| !finite);
    wrong.map(|(parameter, _)| parameter.name).collect()
}

struct List<B: Backend> {
    /// The fields that lead to the parameter, each with the type of the module that has it.
    path: Vec<(String, String)>,
    parameters: Vec<Parameter>,
    /// Whether the values are checked; reading them allocates parameters that have not been used yet.
    checks: bool,
    /// One element for each parameter, still on the device.
    finite: Vec<Tensor<B, 1, Bool>>,
}

impl<B: Backend> List<B> {
    fn of<M: Module<B>>(module: &M, checks: bool) -> Self {
        let mut list = Self {
            path: Vec::new(),
            parameters: Vec::new(),
            checks,
            finite: Vec::new(),
        };
        module.visit(&mut list);
        list
    }
}

impl<B: Backend> ModuleVisitor<B> for List<B> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.push((name.to_owned(), container_type.to_owned()));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let fields: Vec<&str> = self.path.iter().map(|(field, _)| field.as_str()).collect();
        let container = self.path.last().map_or("", |(_, container)| container);
        let container = container.strip_prefix("Struct:").unwrap_or(container);
        let multiplies = container.starts_with("Linear") || container.starts_with("Conv");
        self.parameters.push(Parameter {
            name: fields.join("."),
            shape: param.lazy_shape().to_vec(),
            is_trainable: param.is_require_grad(),
            is_matrix: D >= 2 && multiplies,
        });
        if self.checks {
            // A comparison with NaN is false.
            let finite = param.val().abs().lower_equal_elem(f32::MAX);
            self.finite.push(finite.all());
        }
    }
}

/// The shapes of a model, as far as the speed of its matrix products depends on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shapes {
    pub parameters: usize,
    /// The share of the parameters that matrix products read, 0 to 1.
    pub matrix_share: f64,
    /// The share of those that have a side that is not a multiple of 8, 0 to 1.
    pub odd_share: f64,
    /// The matrices with such a side, the largest first.
    pub odd: Vec<Parameter>,
}

impl Shapes {
    pub fn of(parameters: &[Parameter]) -> Self {
        let sum = |counts: fn(&Parameter) -> bool| -> usize {
            let counted = parameters.iter().filter(|it| counts(it));
            counted.map(Parameter::elements).sum()
        };
        let (all, matrices) = (sum(|_| true), sum(|it| it.is_matrix));
        let odd = parameters.iter().filter(|it| it.is_odd());
        let mut odd: Vec<Parameter> = odd.cloned().collect();
        odd.sort_by_key(|it| usize::MAX - it.elements());
        Self {
            parameters: all,
            matrix_share: matrices as f64 / all.max(1) as f64,
            odd_share: sum(Parameter::is_odd) as f64 / matrices.max(1) as f64,
            odd,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Autodiff, Flex},
        module::Initializer,
        nn::{Linear, LinearConfig},
    };
    use zoo::{
        Net,
        models::{
            gpt::{Gpt, GptConfig},
            resnet::{ResNet, ResNetConfig},
        },
    };

    use super::*;

    type B = Autodiff<Flex>;

    #[test]
    fn embeddings_and_norms_are_not_matrices() {
        let net = Gpt::<B>::init(&GptConfig::tiny(), &Default::default());
        let parameters = trainable(&net);
        let matrices = parameters.iter().filter(|it| it.is_matrix);
        assert_eq!(matrices.count(), 2 * 6 + 1);
        assert_eq!(parameters[0].name, "token.weight");
        let shapes = Shapes::of(&parameters);
        assert_eq!(shapes.parameters, zoo::parameters(&net));
        assert_eq!((shapes.odd_share, shapes.odd), (0.0, vec![]));
        assert!((0.8..0.9).contains(&shapes.matrix_share));
    }

    #[test]
    fn images_have_three_channels_and_running_statistics_are_not_trainable() {
        let net = ResNet::<B>::init(&ResNetConfig::tiny(), &Default::default());
        let parameters = trainable(&net);
        assert!(parameters.iter().all(|it| !it.name.contains("running")));
        let odd = Shapes::of(&parameters).odd;
        let odd: Vec<String> = odd.iter().map(ToString::to_string).collect();
        assert_eq!(odd, ["conv1.weight [8, 3, 7, 7]", "fc.weight [64, 10]"]);
    }

    #[test]
    fn names_the_parameters_that_have_an_inf_or_a_nan() {
        let net = |bias: [f32; 2]| -> Vec<Linear<Flex>> {
            let device = Default::default();
            // Drawn weights would come from the seed that another test has just set.
            let config = LinearConfig::new(3, 2).with_initializer(Initializer::Zeros);
            let mut second = config.init(&device);
            second.bias = Some(Param::from_data(bias, &device));
            vec![config.init(&device), second]
        };
        assert!(non_finite(&net([0.0, f32::MAX])).is_empty());
        for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(non_finite(&net([0.0, wrong])), ["1.bias"], "{wrong}");
        }
    }
}
