//! The products of a step, computed of operands in eight bits and fewer.

use burn_amp_core::{
    Op, Precision,
    formats::{Contraction, Lines, Quantizer, Recipe},
    overflow::Locate,
    replay::{Loss, LostNumbers, Nature, Outside, ProductLosses, RecipeLosses, Step, decibels},
};
use burn_amp_kernels::names::shape_of;
use burn_autodiff::Autodiff;
use burn_backend::{
    AutodiffBackend, Shape, TensorData,
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};

use super::{
    call::{self, Tensors},
    run::{self, Apart, Ran, ReplayError},
    step_losses::step_losses,
    unit::{self, Makers},
};
use crate::{
    backend::Amp,
    cast::parameters::is_view,
    distributed::Trainable,
    graph::Tape,
    policy::Context,
    tensor::{AmpTensor, Reader},
};

/// Runs a step in F32, and then each of its products in each of [`Recipe::ALL`]: the forward product and the two of the backward
/// pass, of operands that are rounded to the recipe's formats. Sums are in F32. Then runs the whole step with each of them
/// simulated, if `device` has BF16 or F16.
///
/// # Errors
///
/// The step cannot be run in F32.
pub fn recipe_losses<B: Trainable>(
    step: &Step,
    device: &Device<B>,
) -> Result<RecipeLosses, ReplayError> {
    let all_in = Some(Precision::F32);
    let context = Context::<B>::apart(run::config(step, all_in, Locate::Off)?, device)?;
    let ran = run::ran(step, device, all_in, context, unit::read::<B>, |_| ())?;
    let makers = unit::makers(step);
    let mut losses = RecipeLosses::default();
    for at in 0..step.calls.len() {
        let op = &*step.calls[at].op;
        if op.starts_with("conv_transpose") || op.contains("attention") {
            losses.others += 1;
        }
        let Some(product) = Product::of(step, &ran, &makers, at) else {
            continue;
        };
        let run = |operands: [TensorData; 2], received: Option<TensorData>| {
            product.run(device, context, operands, received)
        };
        let exact = run(product.values(), product.received.clone())?;
        let all = || exact.iter().flatten().flatten();
        // The first state of a recurrent layer is zero, and so are its products.
        if !all().all(|x| x.is_finite()) || all().all(|x| *x == 0.0) {
            losses.others += 1;
            continue;
        }
        let recipes = Recipe::ALL.iter();
        let recipes = recipes.map(|recipe| product.loss(recipe, &exact, &run));
        let recipes = recipes.collect::<Result<_, _>>()?;
        let weights = product.operands.iter().filter_map(|operand| operand.weight);
        let name = weights.rev().find_map(|weight| weight.parameter.clone());
        losses
            .products
            .push(ProductLosses::new(step, at, name, recipes));
    }
    losses.step = step_losses::<B>(step, device, &ran)?;
    Ok(losses)
}

/// A product of a step, with the values that it has in F32.
struct Product<'a> {
    step: &'a Step,
    at: usize,
    contraction: Contraction,
    operands: [Operand<'a>; 2],
    /// What else the op reads: a bias.
    others: Vec<(u64, Shape)>,
    received: Option<TensorData>,
}

/// An operand that is multiplied.
struct Operand<'a> {
    id: u64,
    data: TensorData,
    /// The parameter that it is, or is a view of.
    weight: Option<&'a Outside>,
    /// Whether the step computes a gradient of it.
    is_tracked: bool,
}

/// What a product has computed: the result and the gradients of both operands.
type Multiplied = [Option<Vec<f64>>; 3];

impl<'a> Product<'a> {
    /// The product of a call, if it is one.
    fn of(step: &'a Step, ran: &Ran<TensorData>, makers: &Makers, at: usize) -> Option<Self> {
        let call = &step.calls[at];
        let operand = |id: u64| {
            let (data, is_tracked) = match makers.get(&id) {
                Some((maker, place)) => {
                    let seen = &ran.calls[*maker][*place];
                    (seen.values.clone()?, seen.is_tracked)
                }
                None => {
                    let outside = step.outside.iter().find(|outside| outside.id == id)?;
                    let data = call::to_burn(&step.data[outside.data]).convert::<f32>();
                    (data, outside.nature == Nature::Leaf)
                }
            };
            Some(Operand {
                id,
                data,
                weight: weight(step, makers, id),
                is_tracked,
            })
        };
        let mut all = call.uses().map(|used| operand(used.id));
        let operands = [all.next()??, all.next()??];
        let others = all.map(|other| other.map(|other| (other.id, shape_of(&other.data).clone())));
        let others = others.collect::<Option<_>>()?;
        let result = ran.calls[at].first()?.values.as_ref()?;
        let shapes = operands
            .each_ref()
            .map(|operand| shape_of(&operand.data).as_slice());
        let contraction = Contraction::of(&call.op, shapes, shape_of(result).as_slice())?;
        Some(Self {
            step,
            at,
            contraction,
            operands,
            others,
            received: ran.received[at].clone(),
        })
    }

    /// The values of both operands.
    fn values(&self) -> [TensorData; 2] {
        self.operands.each_ref().map(|operand| operand.data.clone())
    }

    /// What the product loses in a recipe beside the exact one.
    fn loss(
        &self,
        recipe: &Recipe,
        exact: &Multiplied,
        run: &impl Fn([TensorData; 2], Option<TensorData>) -> Result<Multiplied, ReplayError>,
    ) -> Result<Loss, ReplayError> {
        let mut shares = LostNumbers::default();
        let mut rounded = |quantizer: Quantizer, data: &TensorData, lines: Lines| {
            let quantized = quantizer.quantize(&data.iter::<f64>().collect::<Vec<_>>(), lines);
            shares.add(&quantized);
            TensorData::new(quantized.values, shape_of(data)).convert::<f32>()
        };
        let by = |at: usize| match self.operands[at].weight {
            Some(_) => recipe.weight,
            None => recipe.activation,
        };
        let values = self.values();
        let [lhs, rhs] = [0, 1].map(|at| rounded(by(at), &values[at], self.contraction.result[at]));
        let [result, ..] = run([lhs, rhs], None)?;
        let mut found = [result, None, None];
        for at in 0..2 {
            let Some(received) = self.received.as_ref().filter(|_| exact[at + 1].is_some()) else {
                continue;
            };
            let [of_other, of_gradient] = self.contraction.gradients[at];
            let mut operands = values.clone();
            operands[1 - at] = rounded(by(1 - at), &values[1 - at], of_other);
            let received = rounded(recipe.gradient, received, of_gradient);
            found[at + 1] = run(operands, Some(received))?[at + 1].clone();
        }
        let pairs = found.iter().zip(exact).map(|(found, exact)| {
            let (found, exact) = found.as_ref().zip(exact.as_ref())?;
            decibels(found, exact)
        });
        let mut all = [None; 3];
        all.iter_mut()
            .zip(pairs)
            .for_each(|(place, found)| *place = found);
        Ok(shares.loss(all))
    }

    /// Computes the product without a bias, and its backward pass if there is a gradient.
    fn run<B: Trainable>(
        &self,
        device: &Device<B>,
        context: &'static Context<B>,
        operands: [TensorData; 2],
        received: Option<TensorData>,
    ) -> Result<Multiplied, ReplayError> {
        run::caught(self.step, &mut self.at.clone(), |_| {
            let mut tensors = Tensors::new();
            let entered = |data| {
                let values = B::float_from_data(data, device);
                AmpTensor::<B, Tape>::new(Autodiff::<B>::from_inner(values), context)
            };
            for (id, shape) in &self.others {
                tensors.insert(*id, entered(TensorData::zeros::<f32, _>(shape.clone())));
            }
            let mut leaves = Vec::new();
            for (operand, data) in self.operands.iter().zip(operands) {
                let is_tracked = operand.is_tracked;
                let leaf = Amp::<B, Apart, Tape>::float_set_require_grad(entered(data), is_tracked);
                leaves.push(leaf.handle().filter(|_| is_tracked));
                tensors.insert(operand.id, leaf);
            }
            let call = &self.step.calls[self.at];
            let all_in = Some(Precision::F32);
            let made = run::again(call, self.at, self.step, device, all_in, &mut tensors)?;
            let values = |data: TensorData| data.iter::<f64>().collect::<Vec<_>>();
            let result = made.into_iter().next().expect("a product has a result");
            let mut computed = [
                Some(values(unit::read::<B>(result.stored_values()))),
                None,
                None,
            ];
            if let Some(received) = received.filter(|_| result.is_tracked()) {
                let root: FloatTensor<Autodiff<B>> = result.read(Precision::F32, Reader::Cut);
                let received = B::float_from_data(received, device);
                // The gradient of a sum of products with constants is the constants.
                let root = Autodiff::<B>::float_mul(root, Autodiff::<B>::from_inner(received));
                let grads = Autodiff::<B>::backward(root);
                for (place, leaf) in computed[1..].iter_mut().zip(leaves) {
                    let gradient = leaf.and_then(|leaf| leaf.grad(&grads));
                    *place = gradient.map(|gradient| values(unit::read::<B>(gradient)));
                }
            }
            Ok(computed)
        })
    }
}

/// The parameter that a tensor is, or is a view of.
fn weight<'a>(step: &'a Step, makers: &Makers, id: u64) -> Option<&'a Outside> {
    match makers.get(&id) {
        Some((maker, _)) => {
            let call = &step.calls[*maker];
            let is_view = call.op.parse::<Op>().is_ok_and(is_view);
            let source = call.uses().next().filter(|_| is_view)?;
            weight(step, makers, source.id)
        }
        None => step.outside.iter().find(|outside| {
            outside.id == id && matches!(outside.nature, Nature::Leaf | Nature::Parameter)
        }),
    }
}
