//! Products as a recipe of eight bits or fewer would compute them.
//!
//! [`forward`] is a product of activations and weights whose operands are [`rounded`] as the recipe says, summed in F32 and stored
//! in the dtype of the activations. On Burn's `Autodiff` it is one node, which keeps the operands as they are given. The two products
//! of its backward pass round them again, in blocks along the dimensions over which these add, together with the gradient of the
//! result. Nothing is saved by this: it tells what training in the recipe would do, on any device.

mod product_kind;

use burn_amp_core::formats::{Contraction, Lines, Quantizer, Recipe};

pub use product_kind::ProductKind;

use crate::{prelude::*, rounded};

/// Computes a product in a recipe, plus a bias in any float dtype. The gradient of the bias has its dtype, that of the weight its
/// own one, or F32 if that is asked for.
pub fn forward<B: AmpBackend>(
    product: ProductKind,
    recipe: &'static Recipe,
    [x, weight]: [FloatTensor<B>; 2],
    bias: Option<FloatTensor<B>>,
    has_f32_gradient: bool,
) -> FloatTensor<B> {
    let simulated = Simulated {
        product,
        recipe,
        has_f32_gradient,
    };
    B::run(simulated, ([x, weight], bias).into()).one()
}

#[derive(Clone, Debug)]
struct Simulated {
    product: ProductKind,
    recipe: &'static Recipe,
    has_f32_gradient: bool,
}

impl Simulated {
    /// The lines of the products of operands and a result of these shapes.
    fn lines(&self, operands: [&Shape; 2], result: &Shape) -> Contraction {
        let operands = operands.map(Shape::as_slice);
        Contraction::of(self.product.op().name(), operands, result.as_slice())
            .expect("the op is a product")
    }
}

impl Kernel for Simulated {
    const NAME: &'static str = "burn_amp::simulated";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, weight], bias) = operands.and_maybe();
        let dtype = x.dtype();
        let result = self.product.result(&x.shape(), &weight.shape());
        let [of_x, of_weight] = self.lines([&x.shape(), &weight.shape()], &result).result;
        let x = rounded::forward::<B>(x, self.recipe.activation, of_x);
        let weight = rounded::forward::<B>(weight, self.recipe.weight, of_weight);
        let product = self.product.forward::<B>(x, weight, bias.map(widen::<B>));
        [cast::<B>(product, dtype)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        record_with_all::<B, C, _>(self, operands)
    }
}

impl<B: AmpBackend> Node<B> for Simulated {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = seen::<B>(pass.gradient());
        let ([x, weight], bias) = pass.all_operands();
        let lines = self.lines([&x.shape(), &weight.shape()], &grad.shape());
        let Recipe {
            activation,
            weight: of_weight,
            gradient,
            ..
        } = *self.recipe;
        let round = |tensor: &FloatTensor<B>, quantizer: Quantizer, lines: Lines| {
            rounded::forward::<B>(tensor.clone(), quantizer, lines)
        };
        if pass.parent(0).is_some() {
            let [along_weight, along_grad] = lines.gradients[0];
            let of_x = self.product.input_gradient::<B>(
                widen::<B>(x.clone()),
                round(&weight, of_weight, along_weight),
                round(&grad, gradient, along_grad),
            );
            pass.register(0, cast::<B>(of_x, x.dtype()));
        }
        if pass.parent(1).is_some() {
            let [along_x, along_grad] = lines.gradients[1];
            let dtype = match self.has_f32_gradient {
                true => DType::F32,
                false => weight.dtype(),
            };
            let of_weight = self.product.weight_gradient::<B>(
                round(&x, activation, along_x),
                widen::<B>(weight),
                round(&grad, gradient, along_grad),
            );
            pass.register(1, cast::<B>(of_weight, dtype));
        }
        if let Some(bias) = bias.filter(|_| pass.parent(2).is_some()) {
            let dtype = bias.dtype();
            let of_bias =
                self.product
                    .bias_gradient::<B>(widen::<B>(x), widen::<B>(bias), widen::<B>(grad));
            pass.register(2, cast::<B>(of_bias, dtype));
        }
    }
}
