//! The ops of chains, as kernels.

#[cfg(feature = "cubecl")]
use super::kernel;
use super::{
    Affine, End, Rest, node,
    reference::{plus, reshaped},
};
#[cfg(feature = "cubecl")]
use crate::cube::layout::{in_order, order_of, out_of_order};
use crate::{
    prelude::*,
    sign_mask::{self, SignMask},
};

/// Computes a chain of sums and products of a tensor and small factors, with an optional tensor added before its end, rounded
/// to `dtype`.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    run::<B>(x, affine, plus, dtype, false).one()
}

/// The same, and the mask of the elements that are 0 or less, in the order of memory of `x`.
pub(super) fn with_mask<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> (FloatTensor<B>, SignMask<B>) {
    let mut results = run::<B>(x, affine, plus, dtype, true);
    let mask = SignMask::of(&mut results);
    (results.one(), mask)
}

fn run<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
    has_mask: bool,
) -> TensorsOf<B> {
    let mut tensors = vec![x];
    let chain = taken(affine, &mut tensors);
    tensors.extend(plus);
    let op = ChainForward {
        chain,
        dtype,
        has_mask,
    };
    B::run(op, tensors.into())
}

/// Computes the gradient of a [chain](forward) with respect to `x`, plus the gradients of its other readers, rounded to
/// `dtype`.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    grad: FloatTensor<B>,
    rest: Rest<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let mut tensors = vec![x, grad];
    let chain = taken(affine, &mut tensors);
    let rest = [rest.before, rest.of_squares, rest.of_sum, rest.plus];
    let op = ChainBackward {
        chain,
        rest: rest.each_ref().map(Option::is_some),
        dtype,
    };
    tensors.extend(rest.into_iter().flatten());
    B::run(op, tensors.into()).one()
}

/// Returns the same values, in the order of memory in which the chains' ops read `x`, a tensor of the same shape. Worth it
/// for a tensor that is read several times.
pub fn in_order_of<B: AmpBackend>(tensor: FloatTensor<B>, x: &FloatTensor<B>) -> FloatTensor<B> {
    B::run(InOrderOf, [tensor, x.clone()].into()).one()
}

/// Takes the factors out of a chain, and appends them to a list.
pub(super) fn taken<T>(affine: Affine<T>, tensors: &mut Vec<T>) -> Affine<()> {
    let chain = affine.map(|_| ());
    let factors = [affine.before, affine.scale, affine.rescale, affine.after];
    tensors.extend(factors.into_iter().flatten());
    chain
}

/// Puts the factors that are next in the list back into a chain.
pub(super) fn put_back<T>(chain: &Affine<()>, tensors: &mut impl Iterator<Item = T>) -> Affine<T> {
    chain.map(|()| next(tensors))
}

/// The next tensor of the list.
pub(super) fn next<T>(tensors: &mut impl Iterator<Item = T>) -> T {
    let next = tensors.next();
    next.expect("a chain has the tensors of its parts")
}

/// Takes `x`, a chain, and perhaps a summand.
#[derive(Clone, Debug)]
pub(super) struct ChainForward {
    chain: Affine<()>,
    dtype: FloatDType,
    has_mask: bool,
}

impl ChainForward {
    /// The operands: `x`, the chain, and perhaps a summand.
    fn parts<F, I, O>(&self, operands: Tensors<F, I, O>) -> (F, Affine<F>, Option<F>) {
        let tensors = &mut operands.floats.into_iter();
        let (x, affine) = (next(tensors), put_back(&self.chain, tensors));
        (x, affine, tensors.next())
    }
}

impl Kernel for ChainForward {
    const NAME: &'static str = "burn_amp::affine";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let shape = &operands.floats[0].0;
        let results = Tensors::from([(shape.clone(), self.dtype.into())]);
        results.with_ints(self.has_mask.then(|| sign_mask::meta(shape)))
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let (x, affine, summand) = self.parts(operands);
        let shape = x.shape();
        let y = reshaped::<B>(affine.chain::<B>(x.clone()), &shape);
        let y = affine.end.of::<B>(plus::<B>(y, summand));
        let mask = (self.has_mask).then(|| sign_mask::not_positive::<B>(y.clone(), Some(&x)));
        let results = [cast::<B>(y, self.dtype.into())].into();
        match mask {
            Some(mask) => mask.into_tensors(results),
            None => results,
        }
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let (x, affine, plus) = self.parts(operands.clone());
        let dtype = self.dtype.into();
        let results = kernel::affine(&x, &affine, plus.as_ref(), dtype, self.has_mask);
        results.ok_or(operands)
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let (x, affine, plus) = self.parts(operands);
        [node::recorded::<B, C>(x, affine, plus, self.dtype)].into()
    }
}

/// Takes `x`, the gradient, a chain, and the rest of the gradient.
#[derive(Clone, Debug)]
struct ChainBackward {
    chain: Affine<()>,
    /// Which tensors of the rest there are.
    rest: [bool; 4],
    dtype: FloatDType,
}

impl ChainBackward {
    /// The operands: `x`, the gradient, the chain, and the rest.
    fn parts<F, I, O>(&self, operands: Tensors<F, I, O>) -> (F, F, Affine<F>, Rest<F>) {
        let tensors = &mut operands.floats.into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = put_back(&self.chain, tensors);
        let [before, of_squares, of_sum, plus] =
            self.rest.map(|is_there| is_there.then(|| next(tensors)));
        let rest = Rest {
            before,
            of_squares,
            of_sum,
            plus,
        };
        (x, grad, affine, rest)
    }
}

impl Kernel for ChainBackward {
    const NAME: &'static str = "burn_amp::affine_backward";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [(operands.floats[0].0.clone(), self.dtype.into())].into()
    }

    /// Without an end and squares the kernel has no use for `x`.
    fn reads(&self, mut operands: Tensors<Meta>) -> Tensors<Meta> {
        let [_, of_squares, ..] = self.rest;
        if self.chain.end == End::Identity && !of_squares {
            operands.floats.remove(0);
        }
        operands
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let (x, grad, affine, rest) = self.parts(operands);
        let shape = x.shape();
        let grad = affine.passed::<B>(x.clone(), grad);
        let mut dx = affine.rescaled::<B>(affine.scaled::<B>(grad));
        if let Some(of_squares) = rest.of_squares {
            let chain = Affine {
                before: rest.before,
                ..Affine::identity(affine.grid)
            };
            dx = B::float_add(dx, B::float_mul(chain.centered::<B>(x), of_squares));
        }
        let dx = reshaped::<B>(plus::<B>(dx, rest.of_sum), &shape);
        let dx = plus::<B>(dx, rest.plus);
        [cast::<B>(dx, self.dtype.into())].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let (x, grad, affine, rest) = self.parts(operands.clone());
        let dx = kernel::affine_backward(&x, &affine, &grad, &rest, self.dtype.into());
        Ok([dx.ok_or(operands)?].into())
    }
}

/// Takes a tensor, and one in whose order of memory it is to be.
#[derive(Clone, Copy, Debug)]
struct InOrderOf;

impl Kernel for InOrderOf {
    const NAME: &'static str = "burn_amp::in_order_of";
    // A tensor that is in order is not copied.
    const IS_COMPOSED: bool = true;
    const IS_FUSED: bool = false;
    const READS_F64: bool = true;

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        operands.floats.truncate(1);
        operands
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let [tensor, x] = operands.exactly();
        let order = order_of(&x);
        Ok([out_of_order(in_order(tensor, &order), &order)].into())
    }
}
