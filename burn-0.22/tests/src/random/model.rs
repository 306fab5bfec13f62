//! The parameters of a program.

use crate::random::all::*;

/// The learning rate.
pub const LEARNING_RATE: f64 = 0.01;

/// The parameters of a program: those that are leaves of it, by their numbers, and its layers.
#[derive(Clone)]
pub struct Model<B: Backend> {
    leaves: Vec<Option<FloatTensor<B>>>,
    pub layers: Vec<Layer<B>>,
}

/// The gradients of all parameters, without a graph.
pub type ParameterGradients<B> = Vec<Option<FloatTensor<<B as AutodiffBackend>::InnerBackend>>>;

/// A step of the parameters.
pub type Stepper<B> = fn(Model<B>, ParameterGradients<B>) -> Model<B>;

impl<B: Backend> Model<B> {
    /// Makes the parameters of a program.
    pub fn new(program: &Program, to: &Setting<B>) -> Self {
        let layers = program.layers.iter().enumerate();
        let layers = layers.map(|(i, layer)| layer.init(to, leaf_seed(program.seed, 1000 + i)));
        let leaves = program.leaves.iter().enumerate().map(|(number, leaf)| {
            let is_parameter = matches!(leaf.kind, LeafKind::Parameter | LeafKind::Frozen);
            is_parameter.then(|| {
                let values = values(leaf, leaf_seed(program.seed, number), to);
                B::float_set_require_grad(values, leaf.kind == LeafKind::Parameter)
            })
        });
        Self {
            leaves: leaves.collect(),
            layers: layers.collect(),
        }
    }

    /// The value of the parameter that is the leaf of this number.
    pub fn value(&self, _: &Program, number: usize) -> FloatTensor<B> {
        let value = self.leaves[number].clone();
        value.expect("the leaf is a parameter")
    }

    fn all(&self) -> impl Iterator<Item = &FloatTensor<B>> {
        let of_layers = self.layers.iter().flat_map(|layer| &layer.parameters);
        self.leaves.iter().flatten().chain(of_layers)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut FloatTensor<B>> {
        let of_layers = self
            .layers
            .iter_mut()
            .flat_map(|layer| &mut layer.parameters);
        self.leaves.iter_mut().flatten().chain(of_layers)
    }
}

impl<B: AutodiffBackend> Model<B> {
    /// The gradients of all parameters, or their values if no gradients are given.
    pub fn parameters(&self, grads: Option<&B::Gradients>) -> Vec<Option<TensorData>> {
        use crate::random::run::data;
        let one = |parameter: &FloatTensor<B>| match grads {
            Some(grads) => B::grad(parameter, grads).map(data::<B::InnerBackend>),
            None if B::float_is_require_grad(parameter) => Some(data::<B>(parameter.clone())),
            None => None,
        };
        self.all().map(one).collect()
    }

    /// Takes the gradients of all parameters out.
    pub fn gradients(&self, grads: &mut B::Gradients) -> ParameterGradients<B> {
        let one = |parameter| B::grad_remove(parameter, grads);
        self.all().map(one).collect()
    }

    /// The same values as new leaves.
    pub fn renewed(mut self) -> Self {
        for parameter in self.all_mut() {
            let is_tracked = B::float_is_require_grad(parameter);
            let value = B::from_inner(B::inner(parameter.clone()));
            *parameter = B::float_set_require_grad(value, is_tracked);
        }
        self
    }

    /// Steps by the gradients, whatever the optimizer of the program: Burn 0.22's are tested apart.
    pub fn stepped(mut self, grads: ParameterGradients<B>) -> Self {
        for (parameter, gradient) in self.all_mut().zip(grads) {
            let Some(gradient) = gradient else { continue };
            let step = B::InnerBackend::float_mul_scalar(gradient, LEARNING_RATE.into());
            let value = B::InnerBackend::float_sub(B::inner(parameter.clone()), step);
            *parameter = B::float_set_require_grad(B::from_inner(value), true);
        }
        self
    }
}
