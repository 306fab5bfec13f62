//! The parameters of a program as a module, so that optimizers can step them.

use burn::module::ParamId;

use super::all::*;

/// The parameters of a program.
#[derive(Module, Debug)]
pub struct Model<B: Backend> {
    vectors: Vec<Param<Tensor<B, 1>>>,
    matrices: Vec<Param<Tensor<B, 2>>>,
    cubes: Vec<Param<Tensor<B, 3>>>,
    images: Vec<Param<Tensor<B, 4>>>,
    pub layers: Vec<Layer<B>>,
}

impl<B: Backend> Model<B> {
    /// Makes the parameters of a program.
    pub fn new(program: &Program, to: &Setting<B>) -> Self {
        let layers = program.layers.iter().enumerate();
        let layers = layers.map(|(i, layer)| layer.init(to, leaf_seed(program.seed, 1000 + i)));
        Self {
            vectors: parameters(program, to),
            matrices: parameters(program, to),
            cubes: parameters(program, to),
            images: parameters(program, to),
            layers: layers.collect(),
        }
    }

    /// The value of the parameter that is the leaf of this number.
    pub fn value(&self, program: &Program, number: usize) -> FloatTensor<B> {
        let rank = |leaf: &Leaf| leaf.shape.len();
        let of = rank(&program.leaves[number]);
        let is_before = |leaf: &&Leaf| is_parameter(leaf) && rank(leaf) == of;
        let place = program.leaves[..number].iter().filter(is_before).count();
        let value = match of {
            1 => self.vectors[place].val().into_primitive(),
            2 => self.matrices[place].val().into_primitive(),
            3 => self.cubes[place].val().into_primitive(),
            4 => self.images[place].val().into_primitive(),
            rank => unreachable!("parameters have at most four dimensions, not {rank}"),
        };
        value.tensor()
    }
}

fn is_parameter(leaf: &Leaf) -> bool {
    matches!(leaf.kind, LeafKind::Parameter | LeafKind::Frozen)
}

/// The parameters of rank `D`.
fn parameters<B: Backend, const D: usize>(
    program: &Program,
    to: &Setting<B>,
) -> Vec<Param<Tensor<B, D>>> {
    let leaves = program.leaves.iter().enumerate();
    let leaves = leaves.filter(|(_, leaf)| is_parameter(leaf) && leaf.shape.len() == D);
    let parameter = |(number, leaf): (usize, &Leaf)| {
        let values = values(leaf, leaf_seed(program.seed, number), to);
        let values = Tensor::from_primitive(TensorPrimitive::Float(values));
        let tracked = values.set_require_grad(leaf.kind == LeafKind::Parameter);
        Param::initialized(ParamId::from(number as u64 + 1), tracked)
    };
    leaves.map(parameter).collect()
}

impl<B: AutodiffBackend> Model<B> {
    /// The gradients of all parameters, or their values if no gradients are given.
    pub fn parameters(&self, grads: Option<&B::Gradients>) -> Vec<Option<TensorData>> {
        let mut reader = Reader::<B> {
            grads,
            data: vec![],
        };
        self.visit(&mut reader);
        reader.data
    }

    /// The same values as new leaves.
    pub fn renewed(self) -> Self {
        self.map(&mut Renewed)
    }
}

/// Reads the gradients of a module's parameters, or their values.
struct Reader<'a, B: AutodiffBackend> {
    grads: Option<&'a B::Gradients>,
    data: Vec<Option<TensorData>>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Reader<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let value = param.val();
        self.data.push(match self.grads {
            Some(grads) => value.grad(grads).map(Tensor::into_data),
            // Running statistics advance with each repetition of a forward pass, so they are left out.
            None if value.is_require_grad() => Some(value.into_data()),
            None => None,
        });
    }
}

/// Makes new leaves of a module's parameters.
struct Renewed;

impl<B: AutodiffBackend> ModuleMapper<B> for Renewed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, old, mapper) = param.consume();
        let is_tracked = old.is_require_grad();
        let new = Tensor::from_inner(old.inner()).set_require_grad(is_tracked);
        Param::from_mapped_value(id, new, mapper)
    }
}

/// Takes the gradients of a module out and multiplies them by a factor.
pub struct Unscale<'a, B: AutodiffBackend> {
    pub grads: &'a mut B::Gradients,
    pub factor: f64,
    pub taken: GradientsParams,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Unscale<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = param.val().grad_remove(self.grads) {
            self.taken
                .register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}

/// The learning rate of every optimizer.
pub const LEARNING_RATE: f64 = 0.01;

/// An optimizer's step, whatever the optimizer.
pub type Stepper<B> = Box<dyn FnMut(Model<B>, GradientsParams) -> Model<B>>;

/// Boxes an optimizer.
pub fn stepper<B, O>(mut optimizer: O) -> Stepper<B>
where
    B: AutodiffBackend,
    O: burn::optim::Optimizer<Model<B>, B> + 'static,
    Model<B>: AutodiffModule<B>,
{
    Box::new(move |model, grads| optimizer.step(LEARNING_RATE, model, grads))
}
