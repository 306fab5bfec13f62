//! Tensors in eight bits per element, as a graph may keep the operands of its backward pass.
//!
//! Elements that lie together in memory, [`BLOCK`] of them, share an F32 scale:
//!
//! ```text
//! scale = largest finite magnitude of the block / 126
//! code  = sign(x) · max(1, floor(|x| / scale + 1/2))     from -126 to 126, in an I8
//! x     ≈ code · scale
//! ```
//!
//! So an element is off by at most 1/252 of the largest of its block, and takes 1.0625 bytes. Only a number that is nearer to
//! zero than that is off by twice as much: it keeps its sign and does not become zero, by which a backward pass may divide.
//! Zeros stay zeros, and inf and NaN, which have the codes ±127 and -128, stay what they are: an overflow is still found. On
//! each backend it is one launch each way.

#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "cubecl")]
mod kernel;

use burn_backend::{IntDType, Slice};

#[cfg(feature = "cubecl")]
use crate::cube::layout::{in_order, order_of, out_of_order};
use crate::prelude::*;

/// The elements that share a scale.
pub const BLOCK: usize = 64;

/// The largest code of a finite number.
const MOST: f32 = 126.0;

/// The code of inf. Its negative is that of -inf.
const INF: f32 = 127.0;

/// The code of NaN.
const NAN: f32 = -128.0;

/// The smallest scale, so that its reciprocal is finite: the blocks of a ReLU's output may be zeros.
const LEAST_SCALE: f32 = f32::MIN_POSITIVE;

/// A tensor in eight bits per element.
#[derive(Clone, Debug)]
pub struct EightBits<B: Backend> {
    /// I8, of the shape of the tensor.
    codes: IntTensor<B>,
    /// F32, of shape `[blocks]`.
    scales: FloatTensor<B>,
}

/// The blocks of a tensor, of which the last one may be short.
fn blocks(shape: &Shape) -> usize {
    shape.num_elements().div_ceil(BLOCK)
}

impl<B: AmpBackend> EightBits<B> {
    /// Rounds a tensor in F16, BF16 or F32, which has elements.
    pub fn of(x: FloatTensor<B>) -> Self {
        let Tensors {
            mut floats,
            mut ints,
            ..
        } = B::run(Pack, [x].into());
        Self {
            codes: ints.swap_remove(0),
            scales: floats.swap_remove(0),
        }
    }

    /// Returns the values in F16, BF16 or F32.
    pub fn values(&self, dtype: FloatDType) -> FloatTensor<B> {
        let operands = Tensors::from([self.scales.clone()]).with_ints([self.codes.clone()]);
        B::run(Unpack(dtype), operands).one()
    }

    /// The codes, I8, of the shape of the tensor, and the F32 scales of its blocks.
    pub fn tensors(&self) -> (&IntTensor<B>, &FloatTensor<B>) {
        (&self.codes, &self.scales)
    }
}

/// The first elements of a tensor, in row-major order.
fn first<B: Backend>(tensor: FloatTensor<B>, elements: usize) -> FloatTensor<B> {
    let all = Shape::new([tensor.shape().num_elements()]);
    B::float_slice(B::float_reshape(tensor, all), &[Slice::from(0..elements)])
}

#[derive(Clone, Copy, Debug)]
struct Pack;

impl Kernel for Pack {
    const NAME: &'static str = "burn_amp::eight_bits";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, _) = &operands.floats[0];
        let scales = Shape::new([blocks(shape)]);
        Tensors::from([(scales, DType::F32)]).with_ints([(shape.clone(), DType::I8)])
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.one();
        let shape = x.shape();
        let (elements, count) = (shape.num_elements(), blocks(&shape));
        let x = B::float_reshape(cast::<B>(x, DType::F32), [elements].into());
        // CUDA refuses to fill a tensor without elements.
        let padded = match count * BLOCK - elements {
            0 => x,
            rest => {
                let device = device_of::<B>(&x);
                let zeros = B::float_zeros([rest].into(), &device, FloatDType::F32);
                B::float_cat(vec![x, zeros], 0)
            }
        };
        let blocks = B::float_reshape(padded, [count, BLOCK].into());
        let bools = bool_dtype::<B>(&blocks);
        let is_nan = B::float_is_nan(blocks.clone(), bools);
        let is_inf = B::float_is_inf(blocks.clone(), bools);
        let blocks = B::float_mask_fill(blocks, is_nan.clone(), 0f32.into());
        let sign = B::float_sign(blocks.clone());
        let magnitudes = B::float_mask_fill(B::float_abs(blocks), is_inf.clone(), 0f32.into());
        let most = B::float_max_dim(magnitudes.clone(), 1);
        let scales = B::float_mul_scalar(most, (1.0 / MOST).into());
        let scales = B::float_clamp_min(scales, LEAST_SCALE.into());
        let steps = B::float_div(magnitudes, scales.clone());
        let steps = B::float_floor(B::float_add_scalar(steps, 0.5f32.into()));
        let steps = B::float_clamp_min(steps, 1f32.into());
        let steps = B::float_mask_fill(steps, is_inf, INF.into());
        let codes = B::float_mask_fill(B::float_mul(steps, sign), is_nan, NAN.into());
        let codes = first::<B>(codes, elements);
        let codes = B::float_into_int(codes, IntDType::I8);
        let scales = B::float_reshape(scales, [count].into());
        Tensors::from([scales]).with_ints([B::int_reshape(codes, shape)])
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let x = operands.one();
        let order = order_of(&x);
        let (codes, scales) = kernel::pack(in_order(x, &order));
        Ok(Tensors::from([scales]).with_ints([out_of_order(codes, &order)]))
    }

    #[cfg(feature = "flex")]
    fn on_host(&self, operands: TensorsOf<Flex>) -> Result<TensorsOf<Flex>, TensorsOf<Flex>> {
        let (codes, scales) = host::pack(operands.one());
        Ok(Tensors::from([scales]).with_ints([codes]))
    }
}

/// Returns the values in a dtype.
#[derive(Clone, Copy, Debug)]
struct Unpack(FloatDType);

impl Kernel for Unpack {
    const NAME: &'static str = "burn_amp::from_eight_bits";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, _) = &operands.ints[0];
        [(shape.clone(), self.0.into())].into()
    }

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let codes = operands.ints.swap_remove(0);
        let scales = operands.one();
        let shape = codes.shape();
        let (elements, count) = (shape.num_elements(), blocks(&shape));
        let scales = B::float_reshape(scales, [count, 1].into());
        let scales = B::float_expand(scales, [count, BLOCK].into());
        let scales = B::float_reshape(first::<B>(scales, elements), shape);
        let codes = B::int_into_float(codes, FloatDType::F32);
        let mut values = B::float_mul(codes.clone(), scales);
        let bools = bool_dtype::<B>(&values);
        for (code, value) in [
            (INF, f32::INFINITY),
            (-INF, f32::NEG_INFINITY),
            (NAN, f32::NAN),
        ] {
            let is_code = B::float_equal_elem(codes.clone(), code.into(), bools);
            values = B::float_mask_fill(values, is_code, value.into());
        }
        [cast::<B>(values, self.0.into())].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, mut operands: CubeTensors<R>) -> Launched<R> {
        let codes = operands.ints.swap_remove(0);
        let order = order_of(&codes);
        let codes = in_order(codes, &order);
        let values = kernel::unpack(codes, operands.one(), self.0.into());
        Ok([out_of_order(values, &order)].into())
    }

    #[cfg(feature = "flex")]
    fn on_host(&self, mut operands: TensorsOf<Flex>) -> Result<TensorsOf<Flex>, TensorsOf<Flex>> {
        let codes = operands.ints.swap_remove(0);
        Ok([host::unpack(codes, operands.one(), self.0)].into())
    }
}
