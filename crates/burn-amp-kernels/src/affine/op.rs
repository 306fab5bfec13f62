//! The ops of chains, as kernels.

#[cfg(feature = "cubecl")]
use super::kernel;
use super::{
    Affine, Rest,
    parts::{ChainParts, next, rest},
    reference::{reference, reference_backward},
};
#[cfg(feature = "cubecl")]
use crate::cube::layout;
use crate::prelude::*;

/// Computes a chain, with an optional tensor added before the ReLU, rounded to `dtype`.
pub(super) fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<B>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let (op, tensors) = ChainForward::of(x, affine, plus, dtype);
    B::run(op, tensors).one()
}

/// Computes the gradient of a [chain](super::forward) with respect to `x`, plus the gradients of its other readers, rounded to
/// `dtype`.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<B>,
    grad: FloatTensor<B>,
    rest: Rest<B>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let mut tensors = vec![x, grad];
    let chain = ChainParts::of(affine, &mut tensors);
    let rest = rest.into_tensors();
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

/// Takes `x`, a chain, and perhaps a summand. Its node in a graph is that of [`super::forward`].
#[derive(Clone, Debug)]
pub(super) struct ChainForward {
    chain: ChainParts,
    pub(super) dtype: FloatDType,
}

impl ChainForward {
    /// Takes a chain apart.
    pub(super) fn of<B: AmpBackend>(
        x: FloatTensor<B>,
        affine: Affine<B>,
        plus: Option<FloatTensor<B>>,
        dtype: FloatDType,
    ) -> (Self, TensorsOf<B>) {
        let mut tensors = vec![x];
        let chain = ChainParts::of(affine, &mut tensors);
        tensors.extend(plus);
        (Self { chain, dtype }, tensors.into())
    }

    /// Puts it together: `x`, the chain, and perhaps a summand.
    pub(super) fn parts<B: Backend>(
        &self,
        tensors: TensorsOf<B>,
    ) -> (FloatTensor<B>, Affine<B>, Option<FloatTensor<B>>) {
        let tensors = &mut tensors.floats.into_iter();
        let (x, affine) = (next(tensors), self.chain.chain::<B>(tensors));
        (x, affine, tensors.next())
    }
}

impl Kernel for ChainForward {
    const NAME: &'static str = "burn_amp::affine";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [(operands.floats[0].0.clone(), self.dtype.into())].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let (x, affine, plus) = self.parts::<B>(operands);
        [reference::<B>(x, affine, plus, self.dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let (x, affine, plus) = self.parts::<Cube<R>>(operands.clone());
        let output = kernel::affine(&x, &affine, plus.as_ref(), self.dtype);
        Ok([output.ok_or(operands)?].into())
    }
}

/// Takes `x`, the gradient, a chain, and the rest of the gradient.
#[derive(Clone, Debug)]
struct ChainBackward {
    chain: ChainParts,
    rest: [bool; 4],
    dtype: FloatDType,
}

impl Kernel for ChainBackward {
    const NAME: &'static str = "burn_amp::affine_backward";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [(operands.floats[0].0.clone(), self.dtype.into())].into()
    }

    /// Without a ReLU and squares the kernel has no use for `x`.
    fn reads(&self, mut operands: Tensors<Meta>) -> Tensors<Meta> {
        let [_, of_squares, ..] = self.rest;
        if !self.chain.relu && !of_squares {
            operands.floats.remove(0);
        }
        operands
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let tensors = &mut operands.floats.into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = self.chain.chain::<B>(tensors);
        let rest = rest::<B>(self.rest, tensors);
        [reference_backward::<B>(x, affine, grad, rest, self.dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let tensors = &mut operands.floats.clone().into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = self.chain.chain::<Cube<R>>(tensors);
        let rest = rest::<Cube<R>>(self.rest, tensors);
        let dx = kernel::affine_backward(&x, &affine, &grad, &rest, self.dtype);
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
        Ok([layout::in_order_of(tensor, &x)].into())
    }
}
