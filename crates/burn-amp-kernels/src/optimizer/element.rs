//! The step of one element.

use cubecl::prelude::*;

use super::{code::Code, rounding::FACTORS};
use crate::finite::EXPONENT;

/// The numbers of a rule that all parameters share. `kept` and `added` are the factors of a moment before the step and of
/// the gradient in it. `decay` is an L2 penalty, the factor of a parameter that decays, or the part that is taken from it
/// cautiously.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) lr: f32,
    pub(super) kept_1: f32,
    pub(super) added_1: f32,
    pub(super) kept_2: f32,
    pub(super) added_2: f32,
    pub(super) epsilon: f32,
    pub(super) decay: f32,
}

/// The numbers of one parameter.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Own {
    /// The factor of its gradient.
    pub(super) factor: f32,
    /// 1 if it has no moments yet.
    pub(super) is_first: u32,
    /// For Adam the factor of the first moment, for AdamW its divisor.
    pub(super) correction_1: f32,
    /// For Adam the summand of the root, for AdamW the divisor of the second moment.
    pub(super) correction_2: f32,
    /// The key of its random numbers.
    pub(super) key: u32,
}

/// The moments of one element.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Moved {
    pub(super) weight: f32,
    pub(super) first: f32,
    pub(super) second: f32,
    pub(super) largest: f32,
}

/// Steps one element by its unscaled gradient. `before` has its weight and its moments, which mean nothing in a first
/// step.
#[cube]
pub(super) fn moved(
    before: Moved,
    gradient: f32,
    own: Own,
    numbers: Numbers,
    #[comptime] code: Code,
) -> Moved {
    let is_first = own.is_first == 1u32;
    let mut weight = before.weight;
    let mut gradient = gradient;
    if comptime!(code.decays && !code.is_decoupled) {
        gradient += weight * numbers.decay;
    }
    let mut first = f32::new(0.0);
    let mut second = f32::new(0.0);
    let mut largest = f32::new(0.0);
    let mut delta = gradient;
    if comptime!(code.is_adam) {
        first = gradient * numbers.added_1;
        second = gradient * gradient * numbers.added_2;
        largest = second;
        if !is_first {
            first += before.first * numbers.kept_1;
            second += before.second * numbers.kept_2;
            largest = second;
            if comptime!(code.amsgrad) {
                largest = select(before.largest < second, second, before.largest);
            }
        }
        if comptime!(code.is_decoupled) {
            let root = f32::sqrt(largest / own.correction_2) + numbers.epsilon;
            delta = first / own.correction_1 / root;
            if comptime!(code.is_cautious) {
                let agree = (weight >= 0.0) == (first >= 0.0);
                weight -= select(agree, weight * numbers.decay, f32::new(0.0));
            } else if comptime!(code.decays) {
                weight *= numbers.decay;
            }
        } else {
            let root = f32::sqrt(largest) + own.correction_2;
            delta = first * own.correction_1 / root;
        }
    }
    if comptime!(code.has_momentum) {
        first = gradient;
        if !is_first {
            first = gradient * numbers.added_1 + before.first * numbers.kept_1;
        }
        delta = first;
        if comptime!(code.nesterov) {
            delta = first * numbers.kept_1 + gradient;
        }
    }
    weight -= delta * numbers.lr;
    Moved {
        weight,
        first,
        second,
        largest,
    }
}

/// Unscales a gradient.
#[cube]
pub(super) fn unscaled(
    gradient: f32,
    own: Own,
    unscale: f32,
    clipping: f32,
    #[comptime] code: Code,
) -> f32 {
    let mut gradient = gradient * own.factor;
    if comptime!(code.is_scaled) {
        gradient *= unscale;
    }
    if comptime!(code.is_clipped) {
        gradient *= clipping;
    }
    gradient
}

/// Reads the weight of an element: the master, or the parameter if it is its own.
#[cube]
pub(super) fn weight_at<P: Numeric>(
    parameters: &Sequence<Array<P>>,
    masters: &Sequence<Array<f32>>,
    offsets: &Sequence<Array<i16>>,
    #[comptime] at: usize,
    position: usize,
    #[comptime] code: Code,
) -> f32 {
    if comptime!(code.has_master) {
        masters.index(at)[position]
    } else {
        let stored = f32::cast_from(parameters.index(at)[position]);
        if comptime!(code.has_offset) {
            let offset = i32::cast_from(offsets.index(at)[position]);
            f32::from_bits(f32::to_bits(stored) + u32::cast_from(offset))
        } else {
            stored
        }
    }
}

/// Writes the weight of an element; returns it as it was written to the parameter.
#[cube]
pub(super) fn write<P: Numeric>(
    weight: f32,
    draw: u32,
    parameters: &mut Sequence<Array<P>>,
    masters: &mut Sequence<Array<f32>>,
    offsets: &mut Sequence<Array<i16>>,
    #[comptime] at: usize,
    position: usize,
    #[comptime] code: Code,
) -> f32 {
    let mut weight = weight;
    if comptime!(code.draws_parameter) {
        weight = f32::from_bits(drawn(weight, mixed(draw) & 0xffffu32));
    }
    if comptime!(code.has_master) {
        masters.index_mut(at)[position] = weight;
    }
    if comptime!(code.has_offset) {
        let bits = f32::to_bits(weight);
        let is_finite = (bits & EXPONENT) != EXPONENT;
        // The nearest BF16, ties away from zero; of what is not finite, the rest is dropped.
        let upper = drawn(weight, 0x8000u32);
        let offset = select(is_finite, bits - upper, 0u32);
        offsets.index_mut(at)[position] = i16::cast_from(i32::cast_from(offset));
        weight = f32::from_bits(upper);
    }
    let stored = P::cast_from(weight);
    parameters.index_mut(at)[position] = stored;
    f32::cast_from(stored)
}

/// The same bijection as [`mixed`](super::rounding::mixed).
#[cube]
pub(super) fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16u32)) * FACTORS[0];
    let x = (x ^ (x >> 15u32)) * FACTORS[1];
    x ^ (x >> 16u32)
}

/// Rounds to BF16 with 16 random bits, as [`to_bf16`](super::rounding::to_bf16) does; returns the bits of the rounded
/// number as an F32.
#[cube]
pub(super) fn drawn(x: f32, random: u32) -> u32 {
    let bits = f32::to_bits(x);
    let is_finite = (bits & EXPONENT) != EXPONENT;
    let is_nan = (bits & 0x7fff_ffffu32) > EXPONENT;
    let kept = bits | select(is_nan, 0x0040_0000u32, 0u32);
    select(is_finite, bits + random, kept) & 0xffff_0000u32
}
