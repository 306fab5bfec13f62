//! Moments in blocks of 8 bits on the device, bit for bit as [`blocks`](super::blocks) has them.

use cubecl::prelude::*;

use super::{
    blocks::{BLOCK_WORDS, LANES, LEAST_BASE, SHIFT, codes},
    place::Place,
    random::draw,
};
use crate::cube::names::SharedOf;
use crate::cube::random::mixed;
use crate::finite::EXPONENT;

/// The units of a cube. Each has a word, so a cube has this many words of whole blocks at a time. Every device has cubes
/// this large.
pub(super) const UNITS: usize = 256;

const MAGNITUDE: u32 = 0x7fff_ffff;

/// The number of the code in a lane of a word.
#[cube]
pub(super) fn decoded(
    word: u32,
    base: u32,
    #[comptime] lane: u32,
    #[comptime] place: Place,
) -> f32 {
    let byte = (word >> comptime!(8 * lane)) & 0xffu32;
    let code = byte & comptime!(codes(place));
    let mut bits = (base + code) << comptime!(SHIFT);
    if comptime!(place == Place::First) {
        bits |= (byte >> 7u32) << 31u32;
    }
    select(code == 0u32, f32::new(0.0), f32::from_bits(bits))
}

/// The word of a unit with its numbers of one moment, which are `LANES` of `values`. The first is that of the element `start`.
#[cube]
pub(super) fn encoded_word(
    values: &Array<f32>,
    #[comptime] moment: usize,
    base: u32,
    start: usize,
    key: u32,
) -> u32 {
    let place = comptime!(Place::at(moment));
    let mut word = 0u32;
    #[unroll]
    for lane in 0..LANES {
        let draw = draw(start + lane * BLOCK_WORDS, key);
        let random = match place {
            Place::First => draw & 0xf_ffffu32,
            Place::Other => mixed(draw ^ 0xffff_ffffu32) >> 12u32,
        };
        let side = comptime!(lane as u32);
        word |= encoded(values[moment * LANES + lane], base, random, side, place);
    }
    word
}

/// The code of a number at its place in a word, with 20 random bits.
#[cube]
fn encoded(x: f32, base: u32, random: u32, #[comptime] lane: u32, #[comptime] place: Place) -> u32 {
    let bits = f32::to_bits(x);
    let magnitude = bits & MAGNITUDE;
    let smallest = (base + 1u32) << comptime!(SHIFT);
    let is_nan = magnitude > EXPONENT;
    let kept = magnitude | select(is_nan, 0x0040_0000u32, 0u32);
    let rounded = select(magnitude < EXPONENT, magnitude + random, kept);
    let above = (rounded >> comptime!(SHIFT)) - base;
    let below = if comptime!(place == Place::First) {
        let share = f32::cast_from(random) * comptime!(1.0 / (1u32 << SHIFT) as f32);
        let is_smallest = f32::from_bits(magnitude) > f32::from_bits(smallest) * share;
        select(is_smallest, 1u32, 0u32)
    } else {
        select(magnitude > 0u32, 1u32, 0u32)
    };
    let mut code = select(magnitude >= smallest, above, below);
    if comptime!(place == Place::First) {
        code |= (bits >> 31u32) << 7u32;
    }
    code << comptime!(8 * lane)
}

/// The larger of a magnitude's bits and that of a number.
#[cube]
pub(super) fn larger(largest: u32, x: f32) -> u32 {
    max(largest, f32::to_bits(x) & MAGNITUDE)
}

/// The base of this unit's block, from the largest magnitudes that its units have written to shared memory from `start`
/// on.
#[cube]
pub(super) fn base_of_block(
    largest: &mut SharedOf<u32>,
    start: usize,
    #[comptime] place: Place,
) -> u32 {
    let first = start + (UNIT_POS as usize / BLOCK_WORDS) * BLOCK_WORDS;
    let mut bits = 0u32;
    for unit in 0..BLOCK_WORDS {
        bits = max(bits, largest[first + unit]);
    }
    let codes = comptime!(codes(place));
    max((bits >> comptime!(SHIFT)) + 1u32, codes + LEAST_BASE) - codes
}
