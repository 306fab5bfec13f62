//! The sums over chains and over values, as kernels.

#[cfg(feature = "cubecl")]
use super::sums_launch;
use super::{
    Affine, Group,
    op::{next, put_back, taken},
    reference::{summed, terms},
};
use crate::prelude::*;

/// The sums over an [`Affine`]'s gradient `h`, the gradient of the chain without its end. They have the shape
/// of the group's factors, broadcast to each other.
#[derive(Clone, Debug)]
pub struct Sums<T> {
    /// The sum of `h · rescale` for the first group, of `h` for the second and for all.
    pub of_gradient: T,
    /// The sum of `h · rescale · (x + before)` for the first group, of `h · (x + before) · scale`, or divided by it, for the
    /// second, of `h · (x + before)` for all.
    pub of_product: T,
}

/// Computes the sums that the gradients of a group of factors are made of. The group must not be empty.
pub fn sums<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    grad: FloatTensor<B>,
    group: Group,
) -> Sums<FloatTensor<B>> {
    let kept = affine.kept(group).expect("the group has a factor");
    let mut tensors = vec![x, grad];
    let chain = taken(affine, &mut tensors);
    let op = SumsOfGradient { chain, group, kept };
    let [of_gradient, of_product] = B::run(op, tensors.into()).exactly();
    Sums {
        of_gradient,
        of_product,
    }
}

/// Two sums of a shape.
fn two_sums(shape: &Shape) -> Tensors<Meta> {
    [(shape.clone(), DType::F32), (shape.clone(), DType::F32)].into()
}

/// Takes `x`, the gradient, and a chain.
#[derive(Clone, Debug)]
struct SumsOfGradient {
    chain: Affine<()>,
    group: Group,
    kept: Shape,
}

impl Kernel for SumsOfGradient {
    const NAME: &'static str = "burn_amp::affine_sums";

    fn results(&self, _: &Tensors<Meta>) -> Tensors<Meta> {
        two_sums(&self.kept)
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let tensors = &mut operands.floats.into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = put_back(&self.chain, tensors);
        let grad = affine.passed::<B>(x.clone(), grad);
        let centered = affine.centered::<B>(x);
        let (grad, centered) = match self.group {
            Group::First => (affine.rescaled::<B>(grad), centered),
            Group::Second => (grad, affine.scaled::<B>(centered)),
            Group::All => (grad, centered),
        };
        let summands = [grad.clone(), B::float_mul(grad, centered)];
        summands.map(|x| summed::<B>(x, &self.kept)).into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let tensors = &mut operands.floats.clone().into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = put_back(&self.chain, tensors);
        let sums = sums_launch::sums(&x, &affine, &grad, self.group);
        Ok(sums.ok_or(operands)?.into())
    }
}

/// The sums of `x + before` and of its square over the dimensions in which `kept` is 1, or their means. Takes `x`, and perhaps
/// what is added to it.
#[derive(Clone, Debug)]
pub(crate) struct SumsOfValues {
    /// The shape in which `x` is read.
    pub(crate) grid: Shape,
    pub(crate) kept: Shape,
    pub(crate) mean: bool,
}

impl Kernel for SumsOfValues {
    const NAME: &'static str = "burn_amp::moments";

    fn results(&self, _: &Tensors<Meta>) -> Tensors<Meta> {
        two_sums(&self.kept)
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x], before) = operands.and_maybe();
        let divisor = self.mean.then(|| terms(&x.shape(), &self.kept));
        let affine = Affine {
            before,
            ..Affine::identity(self.grid.clone())
        };
        let centered = affine.centered::<B>(x);
        let moment = |values| {
            let sum = summed::<B>(values, &self.kept);
            match divisor {
                Some(divisor) => B::float_div_scalar(sum, divisor.into()),
                None => sum,
            }
        };
        let squares = B::float_mul(centered.clone(), centered.clone());
        [centered, squares].map(moment).into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let centered = Affine {
            before: operands.floats.get(1).cloned(),
            ..Affine::identity(self.grid.clone())
        };
        let sums = sums_launch::moments(&operands.floats[0], &centered, &self.kept, self.mean);
        Ok(sums.ok_or(operands)?.into())
    }
}
