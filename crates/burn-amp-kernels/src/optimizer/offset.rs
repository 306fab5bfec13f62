//! An F32 master weight as a BF16 parameter and an offset of 16 or 8 bits.
//!
//! The two numbers together represent the master, in 16 bits bit for bit: the parameter is its upper half, rounded to the
//! nearest, and the offset is the distance from the parameter to the master, counted in steps of F32 away from zero.
//!
//! ```text
//! parameter = (bits(master) + 0x8000) >> 16           a tie rounds away from zero
//! offset    = bits(master) - (parameter << 16)        from -32768 to 32767
//! ```
//!
//! In 8 bits a step is 256 steps of F32, and the offset is from -128 to 127: the master has 24 bits, to which it is rounded
//! before it is split. A step of an optimizer rounds it [stochastically](super::rounding), so that updates which are smaller
//! than a step count on average; [`split`] rounds it to the nearest.
//!
//! The kernel computes just this. Burn cannot read the bits of a float on the device, so the functions of this module
//! compute the same in exact F32 arithmetic, from differences of neighbours and products with powers of two. A cast to
//! BF16 and back finds the neighbour of a parameter, and with it the size of a step.
//!
//! A cast rounds ties to even, so 65537 masters share every even parameter: one more than 16 bits can distinguish. No
//! encoding in 2 bytes could therefore follow the cast, and ties, one master in 65536, are rounded away from zero here.

use burn_backend::IntDType;

use crate::prelude::*;

/// The smallest step: below 2^-93 (1e-28) steps do not get smaller, so that no device meets subnormal numbers. Masters
/// that small are kept to 2^-117.
const SMALLEST_ULP: f32 = f32::from_bits((127 - 100) << 23);

/// BF16 values, and the steps of F32 near them. All tensors are F32.
struct Grid<B: Backend> {
    /// The values themselves.
    values: FloatTensor<B>,
    /// 1 or -1; 1 for 0.
    sign: FloatTensor<B>,
    /// The distance to the next BF16 value away from zero.
    ulp: FloatTensor<B>,
    /// 1/2 where a step towards zero is half as long as one away from it, at the powers of two; else 1.
    inward: FloatTensor<B>,
}

impl<B: Backend> Grid<B> {
    fn of(parameter: FloatTensor<B>) -> Self {
        let values = B::float_cast(parameter, FloatDType::F32);
        let ones = B::float_ones(values.shape(), &device_of::<B>(&values), FloatDType::F32);
        let sign = B::float_mask_fill(ones.clone(), is_negative::<B>(&values), (-1f32).into());
        let magnitude = B::float_mul(values.clone(), sign.clone());
        // Between half a step and one and a half above the value, so it rounds to the next one.
        let above = B::float_mul_scalar(magnitude.clone(), (1.0 + 1.5 * 2f32.powi(-8)).into());
        let next = B::float_cast(B::float_cast(above, FloatDType::BF16), FloatDType::F32);
        let ulp = B::float_sub(next, magnitude.clone());
        let ulp = B::float_clamp_min(ulp, SMALLEST_ULP.into());
        // A BF16 value has 8 significant bits: a power of two is 128 of its steps.
        let is_power_of_two = B::float_equal(
            magnitude,
            B::float_mul_scalar(ulp.clone(), 128f32.into()),
            bool_dtype::<B>(&values),
        );
        let inward = B::float_mask_fill(ones, is_power_of_two, 0.5f32.into());
        Self {
            values,
            sign,
            ulp,
            inward,
        }
    }
}

/// The steps of an offset in one step of BF16.
fn steps(offset: DType) -> f32 {
    match offset {
        DType::I8 => 256.0,
        _ => 65536.0,
    }
}

/// Splits an F32 master into the nearest BF16 parameter and the offset, in I16 or I8.
pub fn split<B: Backend>(
    master: FloatTensor<B>,
    dtype: IntDType,
) -> (FloatTensor<B>, IntTensor<B>) {
    let steps = steps(dtype.into());
    let parameter = B::float_cast(master.clone(), FloatDType::BF16);
    let Grid {
        values,
        sign,
        ulp,
        inward,
    } = Grid::<B>::of(parameter);
    let distance = B::float_mul(B::float_sub(master, values.clone()), sign.clone());
    let distance = B::float_mul_scalar(B::float_div(distance, ulp.clone()), steps.into());
    let towards_zero = is_negative::<B>(&distance);
    let inwards = B::float_div(distance.clone(), inward);
    let distance = B::float_mask_where(distance, towards_zero, inwards);
    // To the nearest, a tie away from zero. In 16 bits there is no fraction.
    let distance = B::float_floor(B::float_add_scalar(distance, 0.5f32.into()));

    // A tie, or nearly one: some backends cast through F64 and round values up to 7 steps above a tie as if they were
    // ties.
    let too_far = B::float_greater_elem(
        distance.clone(),
        (steps / 2.0 - 0.5).into(),
        bool_dtype::<B>(&distance),
    );
    let away = B::float_add(values.clone(), B::float_mul(ulp, sign));
    let parameter = B::float_mask_where(values, too_far.clone(), away);
    let parameter = B::float_cast(parameter, FloatDType::BF16);
    let nearer = B::float_sub_scalar(distance.clone(), steps.into());
    let offset = B::float_mask_where(distance, too_far, nearer);
    (parameter, B::float_into_int(offset, dtype))
}

/// Joins a BF16 parameter and its offset, in I16 or I8, to the F32 master.
pub fn join<B: Backend>(parameter: FloatTensor<B>, offset: IntTensor<B>) -> FloatTensor<B> {
    debug_assert_eq!(parameter.dtype(), DType::BF16);
    let steps = steps(offset.dtype());
    let Grid {
        values,
        sign,
        ulp,
        inward,
    } = Grid::<B>::of(parameter);
    let distance = B::int_into_float(offset, FloatDType::F32);
    let towards_zero = is_negative::<B>(&distance);
    let inwards = B::float_mul(distance.clone(), inward);
    let distance = B::float_mask_where(distance, towards_zero, inwards);
    let step = B::float_div_scalar(ulp, steps.into());
    let distance = B::float_mul(B::float_mul(distance, step), sign);
    B::float_add(values, distance)
}

fn is_negative<B: Backend>(x: &FloatTensor<B>) -> BoolTensor<B> {
    B::float_lower_elem(x.clone(), 0f32.into(), bool_dtype::<B>(x))
}
