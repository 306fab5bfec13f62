//! A module's parameters: their names, their shapes, and which of them matrix products read.

use std::fmt;

use burn::{
    module::{Module, ModuleVisitor, Param},
    prelude::*,
};
use serde::Serialize;

/// Tensor cores work on tiles: a side that is not a multiple of this is padded, or computed without them.
const TILE: usize = 8;

/// A trainable parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// `layers.0.weight`
    pub name: String,
    pub shape: Vec<usize>,
    /// Whether it is the matrix of a linear layer or the kernel of a convolution; an embedding is looked up.
    #[serde(skip)]
    pub is_matrix: bool,
}

/// `fc.weight [64, 10]`
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.shape)
    }
}

impl Layer {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it is a matrix whose features or channels do not fill tiles.
    fn is_odd(&self) -> bool {
        let mut sides = self.shape.iter().take(2);
        self.is_matrix && sides.any(|side| !side.is_multiple_of(TILE))
    }
}

/// The shapes of a model, as far as the speed of its matrix products depends on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shapes {
    pub parameters: usize,
    /// The share of the parameters that matrix products read, 0 to 1.
    pub matrix_share: f64,
    /// The share of those that are in layers with a side that is not a multiple of 8, 0 to 1.
    pub odd_share: f64,
    /// These layers, the largest first.
    pub odd: Vec<Layer>,
}

impl Shapes {
    pub fn of(layers: &[Layer]) -> Self {
        let sum = |counts: fn(&Layer) -> bool| -> usize {
            let counted = layers.iter().filter(|layer| counts(layer));
            counted.map(Layer::elements).sum()
        };
        let (all, matrices) = (sum(|_| true), sum(|layer| layer.is_matrix));
        let odd = layers.iter().filter(|layer| layer.is_odd());
        let mut odd: Vec<Layer> = odd.cloned().collect();
        odd.sort_by_key(|layer| usize::MAX - layer.elements());
        Self {
            parameters: all,
            matrix_share: matrices as f64 / all.max(1) as f64,
            odd_share: sum(Layer::is_odd) as f64 / matrices.max(1) as f64,
            odd,
        }
    }
}

/// Lists the trainable parameters in the order of the module's fields. Does not allocate any of them.
pub fn layers<B: Backend, M: Module<B>>(module: &M) -> Vec<Layer> {
    let mut list = List::default();
    module.visit(&mut list);
    list.layers
}

#[derive(Default)]
struct List {
    /// The fields that lead to the parameter, each with the type of the module that has it.
    path: Vec<(String, String)>,
    layers: Vec<Layer>,
}

impl<B: Backend> ModuleVisitor<B> for List {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.push((name.to_owned(), container_type.to_owned()));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if !param.is_require_grad() {
            return;
        }
        let multiplies = |container: &str| {
            let name = container.strip_prefix("Struct:").unwrap_or(container);
            name.starts_with("Linear") || name.starts_with("Conv")
        };
        let container = self.path.last().map_or("", |(_, container)| container);
        self.layers.push(Layer {
            name: name(self.path.iter().map(|(field, _)| field.as_str())),
            shape: param.lazy_shape().to_vec(),
            is_matrix: D >= 2 && multiplies(container),
        });
    }
}

/// The name of a parameter: the fields that lead to it.
pub fn name<'a>(path: impl Iterator<Item = &'a str>) -> String {
    path.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, Flex};
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
        let layers = layers(&net);
        let matrices = layers.iter().filter(|layer| layer.is_matrix);
        assert_eq!(matrices.count(), 2 * 6 + 1);
        assert_eq!(layers[0].name, "token.weight");

        let shapes = Shapes::of(&layers);
        assert_eq!(shapes.parameters, zoo::parameters(&net));
        assert_eq!((shapes.odd_share, shapes.odd), (0.0, vec![]));
        assert!((0.8..0.9).contains(&shapes.matrix_share));
    }

    #[test]
    fn images_have_three_channels_and_running_statistics_are_not_trainable() {
        let net = ResNet::<B>::init(&ResNetConfig::tiny(), &Default::default());
        let layers = layers(&net);
        assert!(layers.iter().all(|layer| !layer.name.contains("running")));
        let odd: Vec<String> = Shapes::of(&layers)
            .odd
            .iter()
            .map(Layer::to_string)
            .collect();
        assert_eq!(odd, ["conv1.weight [8, 3, 7, 7]", "fc.weight [64, 10]"]);
    }
}
