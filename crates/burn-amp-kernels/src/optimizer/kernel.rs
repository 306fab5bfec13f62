//! The code of the step.

use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::rounding::FACTORS;
use crate::{
    finite::EXPONENT,
    loss_scale::{OVERFLOWED, SCALE},
};

/// What the code of a kernel depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Code {
    /// Adam or AdamW, not SGD.
    pub(super) is_adam: bool,
    /// Whether the parameter decays apart from the gradient.
    pub(super) is_decoupled: bool,
    pub(super) decays: bool,
    pub(super) is_cautious: bool,
    pub(super) amsgrad: bool,
    pub(super) has_momentum: bool,
    pub(super) nesterov: bool,
    pub(super) has_master: bool,
    pub(super) has_low: bool,
    pub(super) is_scaled: bool,
    pub(super) may_overflow: bool,
    pub(super) is_clipped: bool,
    /// Whether the moments are BF16, two in a word.
    pub(super) has_words: bool,
    /// Whether the parameter is rounded stochastically.
    pub(super) draws_parameter: bool,
}

/// The same bijection as [`mixed`](super::rounding::mixed).
#[cube]
fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16u32)) * FACTORS[0];
    let x = (x ^ (x >> 15u32)) * FACTORS[1];
    x ^ (x >> 16u32)
}

/// Rounds to BF16 with 16 random bits, as [`to_bf16`](super::rounding::to_bf16) does; returns the bits of the rounded
/// number as an F32.
#[cube]
fn drawn(x: f32, random: u32) -> u32 {
    let bits = f32::to_bits(x);
    let is_finite = (bits & EXPONENT) != EXPONENT;
    let is_nan = (bits & 0x7fff_ffffu32) > EXPONENT;
    let kept = bits | select(is_nan, 0x0040_0000u32, 0u32);
    select(is_finite, bits + random, kept) & 0xffff_0000u32
}

/// One of the two BF16 of a word, widened.
#[cube]
fn unpacked(word: u32, #[comptime] lane: u32) -> f32 {
    let bits = if comptime!(lane == 0) {
        word << 16u32
    } else {
        word & 0xffff_0000u32
    };
    f32::from_bits(bits)
}

/// The bits of a rounded number at their place in a word.
#[cube]
fn packed(bits: u32, #[comptime] lane: u32) -> u32 {
    if comptime!(lane == 0) {
        bits >> 16u32
    } else {
        bits
    }
}

/// Every unit strides over all parameters.
///
/// Gradients have any layout; all other tensors are contiguous, and as long. Lists of what the code does not need are
/// empty. `firsts` says which parameters have no moments yet. `kept` and `added` are the factors of a moment before the
/// step and of the gradient in it. `corrections_1` and `corrections_2` are for Adam the factor of the first moment and
/// the summand of the root, for AdamW the divisors of both moments. `decay` is an L2 penalty, the factor of a parameter
/// that decays, or the part that is taken from it cautiously.
#[cube(launch)]
pub(super) fn optimizer_kernel<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &Sequence<LinearView<G>>,
    parameters: &mut Sequence<Array<P>>,
    masters: &mut Sequence<Array<f32>>,
    first_moments: &mut Sequence<Array<f32>>,
    second_moments: &mut Sequence<Array<f32>>,
    largest_moments: &mut Sequence<Array<f32>>,
    first_words: &mut Sequence<Array<u32>>,
    second_words: &mut Sequence<Array<u32>>,
    largest_words: &mut Sequence<Array<u32>>,
    lows: &mut Sequence<Array<L>>,
    factors: &Sequence<f32>,
    firsts: &Sequence<u32>,
    corrections_1: &Sequence<f32>,
    corrections_2: &Sequence<f32>,
    keys: &Sequence<u32>,
    scaled_by: &Sequence<Array<f32>>,
    unless_overflowed: &Sequence<Array<f32>>,
    clip: &Sequence<Array<f32>>,
    lr: f32,
    kept_1: f32,
    added_1: f32,
    kept_2: f32,
    added_2: f32,
    epsilon: f32,
    decay: f32,
    #[comptime] code: Code,
    #[define(G)] _gradient: StorageType,
    #[define(P)] _parameter: StorageType,
    #[define(L)] _low: StorageType,
) {
    let mut state = f32::new(0.0);
    if comptime!(code.may_overflow) {
        state = unless_overflowed.index(0usize)[OVERFLOWED];
    }
    let is_made = state <= 0.0;
    let mut unscale = f32::new(1.0);
    if comptime!(code.is_scaled) {
        unscale = 1.0 / scaled_by.index(0usize)[SCALE];
    }
    let mut clipping = f32::new(1.0);
    if comptime!(code.is_clipped) {
        clipping = clip.index(0usize)[0];
    }
    let lanes = comptime!(if code.has_words { 2usize } else { 1usize });
    #[unroll]
    for at in 0..gradients.len() {
        let gradients = gradients.index(at);
        let is_first = *firsts.index(at) == 1u32;
        let factor = *factors.index(at);
        let correction_1 = *corrections_1.index(at);
        let correction_2 = *corrections_2.index(at);
        let key = *keys.index(at);
        let length = gradients.shape();
        let mut turn = ABSOLUTE_POS;
        while turn * lanes < length {
            let mut first_word = 0u32;
            let mut second_word = 0u32;
            let mut largest_word = 0u32;
            #[unroll]
            for lane in 0..lanes {
                let position = turn * lanes + lane;
                let side = comptime!(lane as u32);
                if position < length {
                    let mut weight = if comptime!(code.has_master) {
                        masters.index(at)[position]
                    } else {
                        f32::cast_from(parameters.index(at)[position])
                    };
                    if is_made {
                        let mut gradient = f32::cast_from(gradients[position]) * factor;
                        if comptime!(code.is_scaled) {
                            gradient *= unscale;
                        }
                        if comptime!(code.is_clipped) {
                            gradient *= clipping;
                        }
                        if comptime!(code.decays && !code.is_decoupled) {
                            gradient += weight * decay;
                        }
                        let draw = mixed(position as u32 ^ key);
                        let mut delta = gradient;
                        if comptime!(code.is_adam) {
                            let mut first = gradient * added_1;
                            let mut second = gradient * gradient * added_2;
                            let mut largest = second;
                            if !is_first {
                                let before_1 = if comptime!(code.has_words) {
                                    unpacked(first_words.index(at)[turn], side)
                                } else {
                                    first_moments.index(at)[position]
                                };
                                let before_2 = if comptime!(code.has_words) {
                                    unpacked(second_words.index(at)[turn], side)
                                } else {
                                    second_moments.index(at)[position]
                                };
                                first += before_1 * kept_1;
                                second += before_2 * kept_2;
                                largest = second;
                                if comptime!(code.amsgrad) {
                                    let before_3 = if comptime!(code.has_words) {
                                        unpacked(largest_words.index(at)[turn], side)
                                    } else {
                                        largest_moments.index(at)[position]
                                    };
                                    largest = select(before_3 < second, second, before_3);
                                }
                            }
                            if comptime!(code.has_words) {
                                let random_1 = draw & 0xffffu32;
                                let random_2 = draw >> 16u32;
                                first_word |= packed(drawn(first, random_1), side);
                                second_word |= packed(drawn(second, random_2), side);
                                largest_word |= packed(drawn(largest, random_2), side);
                            } else {
                                first_moments.index_mut(at)[position] = first;
                                second_moments.index_mut(at)[position] = second;
                                if comptime!(code.amsgrad) {
                                    largest_moments.index_mut(at)[position] = largest;
                                }
                            }
                            if comptime!(code.is_decoupled) {
                                let root = f32::sqrt(largest / correction_2) + epsilon;
                                delta = first / correction_1 / root;
                                if comptime!(code.is_cautious) {
                                    let agree = (weight >= 0.0) == (first >= 0.0);
                                    weight -= select(agree, weight * decay, f32::new(0.0));
                                } else if comptime!(code.decays) {
                                    weight *= decay;
                                }
                            } else {
                                let root = f32::sqrt(largest) + correction_2;
                                delta = first * correction_1 / root;
                            }
                        }
                        if comptime!(code.has_momentum) {
                            let mut velocity = gradient;
                            if !is_first {
                                let before = if comptime!(code.has_words) {
                                    unpacked(first_words.index(at)[turn], side)
                                } else {
                                    first_moments.index(at)[position]
                                };
                                velocity = gradient * added_1 + before * kept_1;
                            }
                            if comptime!(code.has_words) {
                                first_word |= packed(drawn(velocity, draw & 0xffffu32), side);
                            } else {
                                first_moments.index_mut(at)[position] = velocity;
                            }
                            delta = velocity;
                            if comptime!(code.nesterov) {
                                delta = velocity * kept_1 + gradient;
                            }
                        }
                        weight -= delta * lr;
                        if comptime!(code.draws_parameter) {
                            let random = mixed(draw) & 0xffffu32;
                            weight = f32::from_bits(drawn(weight, random));
                        }
                        parameters.index_mut(at)[position] = P::cast_from(weight);
                        if comptime!(code.has_master) {
                            masters.index_mut(at)[position] = weight;
                        }
                    }
                    if comptime!(code.has_low) {
                        lows.index_mut(at)[position] = L::cast_from(weight);
                    }
                }
            }
            if is_made {
                if comptime!(code.has_words) {
                    first_words.index_mut(at)[turn] = first_word;
                }
                if comptime!(code.has_words && code.is_adam) {
                    second_words.index_mut(at)[turn] = second_word;
                }
                if comptime!(code.has_words && code.amsgrad) {
                    largest_words.index_mut(at)[turn] = largest_word;
                }
            }
            turn += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
}
