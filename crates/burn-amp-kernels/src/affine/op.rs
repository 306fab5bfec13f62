//! The ops of chains, as kernels.

use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{DType, FloatDType, Shape, tensor::FloatTensor};
#[cfg(feature = "cubecl")]
use burn_cubecl::CubeRuntime;

use super::{
    Affine, Group, Moment, Moments, Rest, Sums, node,
    parts::{ChainParts, next, rest},
    reference::{
        reference, reference_backward, reference_moment, reference_moments, reference_sums,
    },
    sum_node,
};
#[cfg(feature = "cubecl")]
use super::{kernel, sums_kernel};
use crate::{
    AmpBackend,
    kernel::{Graph, Kernel, Meta, Tensors, TensorsOf},
};
#[cfg(feature = "cubecl")]
use crate::{
    cube::layout,
    kernel::{Cube, CubeTensors, Launched},
};

/// Computes a chain of sums and products of a tensor and small factors, with an optional tensor added before the ReLU, rounded
/// to `dtype`.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<B>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let mut tensors = vec![x];
    let chain = ChainParts::of(affine, &mut tensors);
    tensors.extend(plus);
    B::run(Forward { chain, dtype }, tensors.into()).one()
}

/// Computes the gradient of [`forward`] with respect to `x`, plus the gradients of its other readers, rounded to `dtype`.
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
    let op = Backward {
        chain,
        rest: rest.each_ref().map(Option::is_some),
        dtype,
    };
    tensors.extend(rest.into_iter().flatten());
    B::run(op, tensors.into()).one()
}

/// Computes the sums that the gradients of a group of factors are made of. The group must not be empty.
pub fn sums<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<B>,
    grad: FloatTensor<B>,
    group: Group,
) -> Sums<FloatTensor<B>> {
    let kept = affine.kept(group).expect("the group has a factor");
    let mut tensors = vec![x, grad];
    let chain = ChainParts::of(affine, &mut tensors);
    let op = SumsOfGradient { chain, group, kept };
    let [of_gradient, of_product] = B::run(op, tensors.into()).exactly();
    Sums {
        of_gradient,
        of_product,
    }
}

/// Computes the sums, or the means, of `x + before` and of its square, of the shape `kept`.
pub fn moments<B: AmpBackend>(
    x: FloatTensor<B>,
    grid: Shape,
    before: Option<FloatTensor<B>>,
    kept: Shape,
    mean: bool,
) -> Moments<FloatTensor<B>> {
    let tensors: Vec<_> = std::iter::once(x).chain(before).collect();
    let op = SumsOfValues { grid, kept, mean };
    let [sum, squares] = B::run(op, tensors.into()).exactly();
    Moments { sum, squares }
}

/// Computes one of the [`moments`].
pub fn moment<B: AmpBackend>(x: FloatTensor<B>, moment: Moment<B>) -> FloatTensor<B> {
    let Moment {
        grid,
        before,
        kept,
        squared,
        mean,
    } = moment;
    let tensors: Vec<_> = std::iter::once(x).chain(before).collect();
    let sums = SumsOfValues { grid, kept, mean };
    B::run(OneMoment { sums, squared }, tensors.into()).one()
}

/// Returns the same values, in the order of memory in which the chains' ops read `x`, a tensor of the same shape. Worth it
/// for a tensor that is read several times.
pub fn in_order_of<B: AmpBackend>(tensor: FloatTensor<B>, x: &FloatTensor<B>) -> FloatTensor<B> {
    B::run(InOrderOf, [tensor, x.clone()].into()).one()
}

/// Two sums of a shape.
fn two_sums(shape: &Shape) -> Tensors<Meta> {
    [(shape.clone(), DType::F32), (shape.clone(), DType::F32)].into()
}

/// Takes `x`, a chain, and perhaps a summand.
#[derive(Clone, Debug)]
struct Forward {
    chain: ChainParts,
    dtype: FloatDType,
}

impl Kernel for Forward {
    const NAME: &'static str = "burn_amp::affine";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [(operands.floats[0].0.clone(), self.dtype.into())].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let tensors = &mut operands.floats.into_iter();
        let (x, affine) = (next(tensors), self.chain.chain::<B>(tensors));
        [reference::<B>(x, affine, tensors.next(), self.dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let tensors = &mut operands.floats.clone().into_iter();
        let (x, affine) = (next(tensors), self.chain.chain::<Cube<R>>(tensors));
        let output = kernel::affine(&x, &affine, tensors.next().as_ref(), self.dtype);
        Ok([output.ok_or(operands)?].into())
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let tensors = &mut operands.floats.into_iter();
        let (x, affine) = (next(tensors), self.chain.chain(tensors));
        [node::recorded::<B, C>(
            x,
            affine,
            tensors.next(),
            self.dtype,
        )]
        .into()
    }
}

/// Takes `x`, the gradient, a chain, and the rest of the gradient.
#[derive(Clone, Debug)]
struct Backward {
    chain: ChainParts,
    rest: [bool; 4],
    dtype: FloatDType,
}

impl Kernel for Backward {
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

/// Takes `x`, the gradient, and a chain.
#[derive(Clone, Debug)]
struct SumsOfGradient {
    chain: ChainParts,
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
        let sums = reference_sums::<B>(x, self.chain.chain(tensors), grad, self.group);
        [sums.of_gradient, sums.of_product].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let tensors = &mut operands.floats.clone().into_iter();
        let (x, grad) = (next(tensors), next(tensors));
        let affine = self.chain.chain::<Cube<R>>(tensors);
        let sums = sums_kernel::sums(&x, &affine, &grad, self.group);
        Ok(sums.ok_or(operands)?.into())
    }
}

/// Takes `x`, and perhaps what is added to it.
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
        let tensors = &mut operands.floats.into_iter();
        let (x, before) = (next(tensors), tensors.next());
        let Self { grid, kept, mean } = self.clone();
        let Moments { sum, squares } = reference_moments::<B>(x, grid, before, kept, mean);
        [sum, squares].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let centered = Affine::<Cube<R>> {
            before: operands.floats.get(1).cloned(),
            ..Affine::identity(self.grid.clone())
        };
        let sums = sums_kernel::moments(&operands.floats[0], &centered, &self.kept, self.mean);
        Ok(sums.ok_or(operands)?.into())
    }
}

/// One of the sums of values, which is a node in a graph.
#[derive(Clone, Debug)]
struct OneMoment {
    sums: SumsOfValues,
    squared: bool,
}

impl OneMoment {
    fn moment<B: AmpBackend>(self, before: Option<FloatTensor<B>>) -> Moment<B> {
        let SumsOfValues { grid, kept, mean } = self.sums;
        Moment {
            grid,
            before,
            kept,
            squared: self.squared,
            mean,
        }
    }
}

impl Kernel for OneMoment {
    const NAME: &'static str = "burn_amp::moment";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let tensors = &mut operands.floats.into_iter();
        let x = next(tensors);
        let moment = self.clone().moment::<B>(tensors.next());
        [reference_moment::<B>(x, moment)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let tensors = &mut operands.floats.into_iter();
        let (x, before) = (next(tensors), tensors.next());
        [sum_node::recorded_moment::<B, C>(x, self.moment(before))].into()
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
