//! Sign masks: which elements of a tensor are 0 or less, in one bit per element.
//!
//! The backward passes of a dropout and of a ReLU need nothing else of their operands. A ReLU in low precision keeps its
//! output instead, which the next op keeps too.
//! [`not_positive`] makes the mask, [`zeroed`] applies it to a gradient. Where the backend has a kernel for them,
//! a mask takes 1/16 of the bytes of a BF16 tensor; otherwise it is a bool tensor.
//!
//! NaN is not 0 or less: a gradient passes where Burn's `relu` lets it pass.

#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "cubecl")]
mod kernel;

use burn_backend::ops::{ActivationOps, FloatTensorOps};

#[cfg(feature = "cubecl")]
pub(crate) use self::kernel::BITS;
#[cfg(feature = "cubecl")]
use crate::cube::layout::{in_order, order_of, out_of_order};
use crate::{graph::saved::is_offering, made, prelude::*};

/// The elements of a tensor that are 0 or less.
#[derive(Clone, Debug)]
pub enum SignMask<B: Backend> {
    /// One bit per element: bit `i % 32` of word `i / 32` is 1 if element `i`, in row-major order, is 0 or less.
    Bits(IntTensor<B>),
    /// One bool per element.
    Bools(BoolTensor<B>),
}

impl<B: Backend> SignMask<B> {
    /// Appends the mask to the operands or the results of an op.
    pub(crate) fn into_tensors(self, tensors: TensorsOf<B>) -> TensorsOf<B> {
        match self {
            Self::Bits(bits) => tensors.with_ints([bits]),
            Self::Bools(bools) => tensors.with_bools([bools]),
        }
    }

    /// Takes the mask out of them.
    pub(crate) fn of(tensors: &mut TensorsOf<B>) -> Self {
        let bits = tensors.ints.pop().map(Self::Bits);
        bits.or_else(|| tensors.bools.pop().map(Self::Bools))
            .expect("a mask has bits or bools")
    }
}

/// The number of words that hold one bit for each of `elements` elements.
pub(crate) fn words(elements: usize) -> usize {
    elements.div_ceil(32)
}

/// Describes the bits of a mask.
pub(crate) fn meta(shape: &Shape) -> Meta {
    (Shape::new([words(shape.num_elements())]), DType::U32)
}

/// Makes the mask of the elements that are 0 or less. A backend may pack it in the order in which `like`, a tensor of the
/// same shape, lies in memory.
pub fn not_positive<B: AmpBackend>(
    x: FloatTensor<B>,
    like: Option<&FloatTensor<B>>,
) -> SignMask<B> {
    SignMask::of(&mut B::run(NotPositive, ([x], like.cloned()).into()))
}

/// Sets the elements to 0 that a mask marks, in the dtype of `x`. The mask was made with the same `like`.
pub fn zeroed<B: AmpBackend>(
    x: FloatTensor<B>,
    mask: SignMask<B>,
    like: Option<&FloatTensor<B>>,
) -> FloatTensor<B> {
    let operands = ([x], like.cloned()).into();
    B::run(Zeroed { sum: None }, mask.into_tensors(operands)).one()
}

/// The same of the sum of two tensors, computed in F32 and rounded to `dtype`.
pub fn sum_zeroed<B: AmpBackend>(
    [x, y]: [FloatTensor<B>; 2],
    mask: SignMask<B>,
    like: Option<&FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let operands = ([x, y], like.cloned()).into();
    let sum = Some(dtype);
    B::run(Zeroed { sum }, mask.into_tensors(operands)).one()
}

/// Computes Burn's `relu`, of which a graph keeps the output in low precision or a mask.
pub fn relu<B: AmpBackend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::run(Relu, [x].into()).one()
}

/// Computes the product of `x` and a tensor of zeros and ones, of which a graph keeps a mask.
pub fn mul_zeros_and_ones<B: AmpBackend>(
    x: FloatTensor<B>,
    zeros_and_ones: FloatTensor<B>,
) -> FloatTensor<B> {
    B::run(MulZerosAndOnes, [x, zeros_and_ones].into()).one()
}

/// Makes a mask, and shows it to who reports what a graph keeps.
pub(crate) fn kept<B: AmpBackend>(mask: SignMask<B>) -> SignMask<B> {
    match &mask {
        SignMask::Bits(bits) => made::int::<B>(bits),
        SignMask::Bools(bools) => made::bool::<B>(bools),
    }
    mask
}

/// Takes a tensor, and perhaps one in whose order of memory the mask is packed.
#[derive(Clone, Copy, Debug)]
struct NotPositive;

impl Kernel for NotPositive {
    const NAME: &'static str = "burn_amp::not_positive";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        Tensors::from([]).with_ints([meta(&operands.floats[0].0)])
    }

    fn reads(&self, mut operands: Tensors<Meta>) -> Tensors<Meta> {
        operands.floats.truncate(1);
        operands
    }

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.floats.swap_remove(0);
        let bool_dtype = bool_dtype::<B>(&x);
        let mask = B::float_lower_equal_elem(x, 0f32.into(), bool_dtype);
        Tensors::from([]).with_bools([mask])
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let ([tensor], x) = operands.and_maybe();
        let bits = kernel::not_positive(match x {
            Some(x) => in_order(tensor, &order_of(&x)),
            None => tensor,
        });
        Ok(Tensors::from([]).with_ints([bits]))
    }

    #[cfg(feature = "flex")]
    fn on_host(&self, mut operands: TensorsOf<Flex>) -> Result<TensorsOf<Flex>, TensorsOf<Flex>> {
        let bits = host::not_positive(operands.floats.swap_remove(0));
        Ok(Tensors::from([]).with_ints([bits]))
    }
}

/// Takes a tensor or the terms of a sum, a mask, and perhaps a tensor in whose order of memory the mask is packed.
#[derive(Clone, Copy, Debug)]
struct Zeroed {
    /// The dtype of a sum.
    sum: Option<FloatDType>,
}

impl Zeroed {
    /// The operands: a tensor, what is added to it, and the one in whose order the mask is packed.
    fn parts<F, I, O>(self, operands: Tensors<F, I, O>) -> (F, Option<F>, Option<F>) {
        let mut tensors = operands.floats.into_iter();
        let x = tensors.next().expect("a mask is applied to a tensor");
        let plus = self.sum.and_then(|_| tensors.next());
        (x, plus, tensors.next())
    }

    /// The tensor to which the mask is applied.
    fn sum<B: Backend>(self, operands: TensorsOf<B>) -> FloatTensor<B> {
        let (x, plus, _) = self.parts(operands);
        match plus.zip(self.sum) {
            Some((plus, dtype)) => {
                let sum = B::float_add(widen::<B>(x), widen::<B>(plus));
                cast::<B>(sum, dtype.into())
            }
            None => x,
        }
    }
}

impl Kernel for Zeroed {
    const NAME: &'static str = "burn_amp::zeroed";
    const READS_F64: bool = true;

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, dtype) = operands.floats[0].clone();
        [(shape, self.sum.map_or(dtype, Into::into))].into()
    }

    fn reads(&self, mut operands: Tensors<Meta>) -> Tensors<Meta> {
        operands
            .floats
            .truncate(1 + usize::from(self.sum.is_some()));
        operands
    }

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let mask = operands.bools.pop();
        let mask = mask.expect("a mask is in bits only if the backend has its own way to apply it");
        [B::float_mask_fill(
            self.sum::<B>(operands),
            mask,
            0f32.into(),
        )]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, mut operands: CubeTensors<R>) -> Launched<R> {
        let Some(bits) = operands.ints.pop() else {
            return Err(operands);
        };
        let (tensor, plus, like) = self.parts(operands);
        let dtype = self.sum.map_or(tensor.dtype, Into::into);
        let order = like.map(|like| order_of(&like));
        let lies = |tensor| match &order {
            Some(order) => in_order(tensor, order),
            None => tensor,
        };
        let output = kernel::zeroed(lies(tensor), plus.map(lies), bits, dtype);
        Ok([match &order {
            Some(order) => out_of_order(output, order),
            None => output,
        }]
        .into())
    }

    #[cfg(feature = "flex")]
    fn on_host(&self, mut operands: TensorsOf<Flex>) -> Result<TensorsOf<Flex>, TensorsOf<Flex>> {
        match operands.ints.pop() {
            Some(bits) => Ok([host::zeroed(self.sum::<Flex>(operands), bits)].into()),
            None => Err(operands),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Relu;

impl Kernel for Relu {
    const NAME: &'static str = "burn_amp::relu";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        [B::relu(operands.one())].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        // Any other strategy recomputes results, and a mask would cut the chain of recomputed ops.
        if recomputes::<C>() {
            return [Autodiff::<B, C>::relu(x)].into();
        }
        let node = Recording::<B, C, _, 1>::new([&x], |_| false);
        let keep = |output: &FloatTensor<B>| match output.dtype() {
            DType::F16 | DType::BF16 if !is_offering() => Passed::Output::<B>(output.clone()),
            _ => Passed::Mask(kept(not_positive::<B>(output.clone(), None))),
        };
        [node.finish(B::relu(x.primitive), keep)].into()
    }
}

#[derive(Clone, Copy, Debug)]
struct MulZerosAndOnes;

impl Kernel for MulZerosAndOnes {
    const NAME: &'static str = "burn_amp::mul_zeros_and_ones";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, zeros_and_ones] = exactly(operands.floats);
        [B::float_mul(x, zeros_and_ones)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [x, zeros_and_ones] = exactly(operands.floats);
        if zeros_and_ones.is_tracked() || x.shape() != zeros_and_ones.shape() {
            return [Autodiff::<B, C>::float_mul(x, zeros_and_ones)].into();
        }
        let node = Recording::<B, C, _, 1>::new([&x], |_| false);
        let zeros_and_ones = zeros_and_ones.primitive;
        let output = B::float_mul(x.primitive, zeros_and_ones.clone());
        let keep = |_: &FloatTensor<B>| Passed::Mask(kept(not_positive::<B>(zeros_and_ones, None)));
        [node.finish(output, keep)].into()
    }
}

/// Where a gradient passes unchanged; elsewhere it does not pass at all.
#[derive(Clone, Debug)]
enum Passed<B: AmpBackend> {
    /// Where the mask has no element.
    Mask(SignMask<B>),
    /// Where the output of a ReLU is positive. An output in low precision is what the next op keeps too, unless it keeps eight
    /// bits, which do not tell small numbers from zero.
    Output(FloatTensor<B>),
}

impl<B: AmpBackend> Node<B> for Passed<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = match self {
            Self::Mask(mask) => zeroed::<B>(grad, mask, None),
            Self::Output(output) => B::relu_backward(output, grad),
        };
        pass.register(0, gradient);
    }
}
