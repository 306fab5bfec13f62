//! The places where inf and NaN are found: the loss, the gradients, the parameters.
//!
//! A step computes them in this order, so the first place found is the nearest to the cause. The op remains unknown,
//! because Burn's backends do not report what an op returns.

use burn::{
    module::{Module, ModuleVisitor, Param},
    prelude::*,
};
use burn_amp::scaling::Skip;

/// The place of the gradients for which the loss scaling skipped a step; `trainable` are all that have some.
///
/// burn-amp numbers gradients in the order in which their parameters were made. That is the order of the module if an
/// update changes all of them; otherwise, as in a GAN, a gradient has a number here and no name.
pub fn gradients(skip: &Skip, trainable: &[(String, Shape)]) -> Option<String> {
    // The backward pass starts at the parameter that is last in the module.
    let last = skip.overflowed.last()?;
    let (count, all) = (skip.overflowed.len(), skip.gradients);
    let parameter = trainable.get(last.index).filter(|_| all == trainable.len());
    let name = match parameter {
        Some((name, shape)) if *shape == last.shape => name.clone(),
        _ => format!("#{} {:?}", last.index, last.shape.as_slice()),
    };
    let place = format!("{count} of {all} gradients, nearest to the loss {name}");
    Some(place)
}

/// The place of the parameters that are not finite, running statistics of norms included. Incurs one device-to-host
/// read.
pub fn parameters<B: Backend, M: Module<B>>(module: &M) -> Option<String> {
    let (names, finite): (Vec<_>, Vec<_>) = Tensors::of(module).finite.into_iter().unzip();
    let finite = Tensor::cat(finite, 0).into_data();
    let flagged = names.iter().zip(finite.iter::<bool>());
    let mut wrong = flagged.filter(|(_, finite)| !finite).map(|(name, _)| name);
    let first = wrong.next()?;
    Some(match wrong.count() {
        0 => format!("parameter {first}"),
        others => format!("parameter {first} and {others} others"),
    })
}

/// The float tensors of a module in the order of its fields, with names such as `layers.0.weight`.
#[derive(Default)]
pub struct Tensors<B: Backend> {
    /// The fields that lead to the tensor that is visited.
    path: Vec<String>,
    /// Whether all elements are finite, still on the device.
    finite: Vec<(String, Tensor<B, 1, Bool>)>,
    /// The shapes of all but the running statistics of norms.
    pub trainable: Vec<(String, Shape)>,
}

impl<B: Backend> Tensors<B> {
    pub fn of<M: Module<B>>(module: &M) -> Self {
        let mut tensors = Self::default();
        module.visit(&mut tensors);
        tensors
    }
}

impl<B: Backend> ModuleVisitor<B> for Tensors<B> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let name = self.path.join(".");
        if param.is_require_grad() {
            self.trainable.push((name.clone(), param.lazy_shape()));
        }
        // A comparison with NaN is false.
        let finite = param.val().abs().lower_equal_elem(f32::MAX);
        self.finite.push((name, finite.all()));
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Autodiff, Flex},
        module::Initializer,
        nn::{BatchNormConfig, LinearConfig},
    };
    use burn_amp::{config::Precision, scaling::Overflow};

    use super::*;

    #[test]
    fn a_gradient_has_its_parameters_name_only_if_numbers_and_shapes_agree() {
        let device = Default::default();
        let linear = LinearConfig::new(3, 2).init::<Autodiff<Flex>>(&device);
        // The running statistics of a norm have no gradients.
        let net = (BatchNormConfig::new(4).init(&device), linear);
        let trainable = Tensors::of(&net).trainable;
        for (index, shape, gradients, expected) in [
            (3, vec![2], 4, "1.bias"),
            (2, vec![3, 2], 4, "1.weight"),
            (2, vec![3, 2], 3, "#2 [3, 2]"),
            (3, vec![3, 2], 4, "#3 [3, 2]"),
        ] {
            let (shape, dtype) = (Shape::from(shape), Precision::F16);
            let skip = Skip {
                step: 0,
                scale: 65536.0,
                overflowed: vec![Overflow {
                    name: Default::default(),
                    index,
                    shape,
                    dtype,
                }],
                gradients,
                cause: None,
            };
            let place = super::gradients(&skip, &trainable).unwrap();
            let expected = format!("1 of {gradients} gradients, nearest to the loss {expected}");
            assert_eq!(place, expected);
        }
    }

    #[test]
    fn names_the_parameters_that_have_an_inf_or_a_nan() {
        let place = |bias: [f32; 2]| {
            let device = Default::default();
            // Drawn weights would come from the seed that another test has just set.
            let config = LinearConfig::new(3, 2).with_initializer(Initializer::Zeros);
            let mut second = config.init::<Flex>(&device);
            second.bias = Some(Param::from_data(bias, &device));
            parameters(&vec![config.init(&device), second])
        };
        assert_eq!(place([0.0, f32::MAX]), None);
        for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(place([0.0, wrong]).unwrap(), "parameter 1.bias", "{wrong}");
        }
    }
}
