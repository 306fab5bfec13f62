//! Numbers for stochastic rounding.

use cubecl::prelude::*;

use crate::{cube::random::mixed, finite::EXPONENT};

/// The random bits of an element: those of [`Draw`](super::rounding::Draw).
#[cube]
pub(super) fn draw(position: usize, key: u32) -> u32 {
    mixed(position as u32 ^ key)
}

/// Drops the low bits of a number with as many random bits, as [`without`](super::rounding::without) does; returns the bits
/// of the rounded number.
#[cube]
pub(super) fn drawn(x: f32, random: u32, #[comptime] dropped: u32) -> u32 {
    let bits = f32::to_bits(x);
    let is_finite = (bits & EXPONENT) != EXPONENT;
    let is_nan = (bits & 0x7fff_ffffu32) > EXPONENT;
    let kept = bits | select(is_nan, 0x0040_0000u32, 0u32);
    select(is_finite, bits + random, kept) & comptime!(!dropped)
}
