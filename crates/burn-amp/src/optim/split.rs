//! An F32 master weight as a BF16 parameter and a 16-bit offset.
//!
//! The two numbers together represent the master, bit for bit: the parameter is its upper half, rounded to the nearest,
//! and the offset is the distance from the parameter to the master, counted in steps of F32 away from zero.
//!
//! ```text
//! parameter = (bits(master) + 0x8000) >> 16           a tie rounds away from zero
//! offset    = bits(master) - (parameter << 16)        from -32768 to 32767
//! ```
//!
//! Burn cannot read the bits of a float on the device, so the same is computed in exact F32 arithmetic, from
//! differences of neighbours and products with powers of two. A cast to BF16 and back finds the neighbour of a
//! parameter, and with it the size of a step.
//!
//! A cast rounds ties to even, so 65537 masters share every even parameter: one more than 16 bits can distinguish. No
//! encoding in 2 bytes could therefore follow the cast, and ties, one master in 65536, are rounded away from zero here.

use burn::tensor::{DType, FloatDType, Int, IntDType, Tensor, backend::Backend};

/// The smallest step: below 2^-93 (1e-28) steps do not get smaller, so that no device meets subnormal numbers. Masters
/// that small are kept to 2^-117.
const SMALLEST_ULP: f32 = f32::from_bits((127 - 100) << 23);

/// BF16 values, and the steps of F32 near them. All tensors are F32.
struct Grid<B: Backend, const D: usize> {
    /// The values themselves.
    values: Tensor<B, D>,
    /// 1 or -1; 1 for 0.
    sign: Tensor<B, D>,
    /// The distance to the next BF16 value away from zero.
    ulp: Tensor<B, D>,
    /// 1/2 where a step towards zero is half as long as one away from it, at the powers of two; else 1.
    inward: Tensor<B, D>,
}

impl<B: Backend, const D: usize> Grid<B, D> {
    fn of(parameter: Tensor<B, D>) -> Self {
        let values = parameter.cast(FloatDType::F32);
        let sign = values
            .ones_like()
            .mask_fill(values.clone().lower_elem(0.0), -1.0);
        let magnitude = values.clone() * sign.clone();
        // Between half a step and one and a half above the value, so it rounds to the next one.
        let above = magnitude.clone() * (1.0 + 1.5 * 2f32.powi(-8));
        let next = above.cast(FloatDType::BF16).cast(FloatDType::F32);
        let ulp = (next - magnitude.clone()).clamp_min(SMALLEST_ULP);
        // A BF16 value has 8 significant bits: a power of two is 128 of its steps.
        let is_power_of_two = magnitude.equal(ulp.clone() * 128.0);
        let inward = ulp.ones_like().mask_fill(is_power_of_two, 0.5);
        Self {
            values,
            sign,
            ulp,
            inward,
        }
    }
}

/// The steps of F32 in one step of BF16.
const STEPS: f32 = 65536.0;

/// Splits an F32 master into the nearest BF16 parameter and the I16 offset.
pub(super) fn split<B: Backend, const D: usize>(
    master: Tensor<B, D>,
) -> (Tensor<B, D>, Tensor<B, D, Int>) {
    let parameter = master.clone().cast(FloatDType::BF16);
    let Grid {
        values,
        sign,
        ulp,
        inward,
    } = Grid::of(parameter);
    let distance = (master - values.clone()) * sign.clone() / ulp.clone() * STEPS;
    let towards_zero = distance.clone().lower_elem(0.0);
    let distance = distance.clone().mask_where(towards_zero, distance / inward);

    // A tie, or nearly one: some backends cast through F64 and round values up to 7 steps above a tie as if they were
    // ties.
    let too_far = distance.clone().greater_elem(32767.5);
    let away = values.clone() + ulp * sign;
    let parameter = values
        .mask_where(too_far.clone(), away)
        .cast(FloatDType::BF16);
    let offset = distance.clone().mask_where(too_far, distance - STEPS);
    let offset = offset.cast(IntDType::I16);
    (parameter, offset)
}

/// Joins a BF16 parameter and its I16 offset to the F32 master.
pub(super) fn join<B: Backend, const D: usize>(
    parameter: Tensor<B, D>,
    offset: Tensor<B, D, Int>,
) -> Tensor<B, D> {
    debug_assert_eq!(parameter.dtype(), DType::BF16);
    let Grid {
        values,
        sign,
        ulp,
        inward,
    } = Grid::of(parameter);
    let distance = offset.cast(FloatDType::F32);
    let towards_zero = distance.clone().lower_elem(0.0);
    let distance = distance.clone().mask_where(towards_zero, distance * inward);
    values + distance * (ulp / STEPS) * sign
}
