//! Moments in 8 bits, on the host; the kernel computes the same bits.
//!
//! Law: moments in 1 byte are right on average, and a number that is stored again stays what it is.
//!
//! A tensor is cut into blocks of 128 elements, in row-major order, as in "8-bit Optimizers via Block-wise Quantization"
//! (<https://arxiv.org/abs/2110.02861>): each block has a scale of its own, so that a large element costs only its
//! neighbours their precision. Here a scale is a power of two, as in the Microscaling formats of the Open Compute Project,
//! and elements are floats with 3 bits of mantissa, as theirs and those of
//! [torchao](https://github.com/pytorch/ao)'s 8-bit AdamW: coding and decoding are shifts and sums of integers, and no
//! number is rounded twice.
//!
//! ```text
//! pattern(x) = bits(|x|) >> 20                     the exponent and 3 bits of the mantissa of an F32
//! base       = pattern(largest of the block) + 1 - codes
//! code(x)    = pattern(x) - base                   from 1 to codes; 0 is zero
//! codes      = 255, or 127 with a sign in the highest bit
//! ```
//!
//! So a code means the same number in every block, and a block keeps the codes below its largest number: a second moment
//! down to 2^-31 of it, and a first moment, which has a sign, down to 2^-15. A positive number below that becomes the
//! smallest one and never zero, because a second moment of zero makes a step as long as ε allows
//! (<https://arxiv.org/abs/2309.01507>). A number with a sign becomes zero or the smallest one, right on average.
//!
//! The tensor is made of U32 words: for each block 32 words, then for each block one with its base. The word `w` of a
//! block holds the elements `w`, `w + 32`, `w + 64` and `w + 96`, the first in the lowest bits, so that neighbouring units
//! of a device read neighbouring elements.

use super::place::Place;

/// The elements of a block.
pub const BLOCK: usize = 128;

/// The words in which a block has its elements.
pub(super) const BLOCK_WORDS: usize = BLOCK / LANES;

/// The elements of a word.
pub(super) const LANES: usize = 4;

/// The bits of an F32 below those of a pattern.
pub(super) const SHIFT: u32 = 20;

/// The least base: all numbers with a code above it are normal, so that no device flushes them to zero.
pub(super) const LEAST_BASE: u32 = 8;

/// The random bits that round to nearest.
pub const NEAREST: u32 = 1 << (SHIFT - 1);

/// Returns how many codes besides zero the moment at a place has.
pub(super) const fn codes(place: Place) -> u32 {
    match place {
        Place::First => 127,
        Place::Other => 255,
    }
}

/// Returns the number of words of a tensor with `elements` elements.
pub fn words(elements: usize) -> usize {
    elements.div_ceil(BLOCK) * (BLOCK_WORDS + 1)
}

/// Returns the base of a block from the bits of its largest magnitude.
fn base(largest: u32, place: Place) -> u32 {
    ((largest >> SHIFT) + 1).max(codes(place) + LEAST_BASE) - codes(place)
}

/// Returns the code of a number, with 20 random bits.
fn code(x: f32, base: u32, random: u32, place: Place) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let smallest = (base + 1) << SHIFT;
    let code = if !x.is_finite() {
        // A quiet NaN has a bit that is kept.
        ((magnitude | u32::from(x.is_nan()) << 22) >> SHIFT) - base
    } else if magnitude >= smallest {
        ((magnitude + random) >> SHIFT) - base
    } else {
        match place {
            Place::First => {
                let share = random as f32 * 2f32.powi(-(SHIFT as i32));
                u32::from(x.abs() > f32::from_bits(smallest) * share)
            }
            Place::Other => u32::from(magnitude > 0),
        }
    };
    match place {
        Place::First => code | bits >> 31 << 7,
        Place::Other => code,
    }
}

/// Returns the number of a code.
fn value(code: u32, base: u32, place: Place) -> f32 {
    let (code, sign) = match place {
        Place::First => (code & 0x7f, code >> 7 << 31),
        Place::Other => (code, 0),
    };
    match code {
        0 => 0.0,
        code => f32::from_bits(sign | (base + code) << SHIFT),
    }
}

/// Codes the elements of a moment; `random` returns 20 bits for an index.
pub fn pack(values: &[f32], place: Place, random: impl Fn(usize) -> u32) -> Vec<u32> {
    let blocks = values.len().div_ceil(BLOCK);
    let mut words = vec![0; blocks * (BLOCK_WORDS + 1)];
    for (block, values) in values.chunks(BLOCK).enumerate() {
        let magnitudes = values.iter().map(|x| x.to_bits() & 0x7fff_ffff);
        let base = base(magnitudes.max().unwrap_or(0), place);
        for (at, x) in values.iter().enumerate() {
            let code = code(*x, base, random(block * BLOCK + at), place);
            words[block * BLOCK_WORDS + at % BLOCK_WORDS] |= code << (8 * (at / BLOCK_WORDS));
        }
        words[blocks * BLOCK_WORDS + block] = base;
    }
    words
}

/// Returns the numbers of a moment with `elements` elements.
///
/// # Panics
///
/// Panics if there are not as many words as [`words`] says.
pub fn unpack(words: &[u32], elements: usize, place: Place) -> Vec<f32> {
    let (words, bases) = words.split_at(elements.div_ceil(BLOCK) * BLOCK_WORDS);
    let value = |index: usize| {
        let (block, at) = (index / BLOCK, index % BLOCK);
        let word = words[block * BLOCK_WORDS + at % BLOCK_WORDS];
        value(word >> (8 * (at / BLOCK_WORDS)) & 0xff, bases[block], place)
    };
    (0..elements).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::rounding::{Draw, mixed};

    const PLACES: [Place; 2] = [Place::First, Place::Other];

    /// The numbers that a block can keep beside `largest`.
    fn grid(largest: f32, place: Place) -> Vec<f32> {
        let base = base(largest.to_bits(), place);
        let codes = 0..codes(place);
        codes.map(|code| value(code, base, place)).collect()
    }

    #[test]
    fn a_number_that_has_a_code_is_not_changed() {
        for place in PLACES {
            for largest in [1.0f32, 3e-30, 1e30] {
                let values = grid(largest, place);
                for random in [0, 1, NEAREST, (1 << SHIFT) - 1] {
                    // Each beside the largest, in blocks of two.
                    for x in &values {
                        for x in [*x, -x] {
                            let x = if place == Place::Other { x.abs() } else { x };
                            let kept = unpack(&pack(&[largest, x], place, |_| random), 2, place);
                            assert_eq!(kept[1], x, "{place:?}, {largest}, {random}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_number_becomes_one_of_its_neighbours() {
        for place in PLACES {
            let mut grid = grid(1.0, place);
            grid.push(1.125);
            for at in 0..40_000u32 {
                let x = (mixed(at) as f32 / u32::MAX as f32).powi(8);
                let random = mixed(at + 1) >> 12;
                let kept = unpack(&pack(&[1.0, x], place, |_| random), 2, place)[1];
                let above = grid.partition_point(|code| *code < x);
                let below = match place {
                    Place::First => above.saturating_sub(1),
                    // A positive number never becomes zero.
                    Place::Other => above.saturating_sub(1).max(usize::from(x > 0.0)),
                };
                assert!(
                    kept == grid[above] || kept == grid[below],
                    "{place:?}: {kept} for {x}"
                );
            }
        }
    }

    /// A million draws of numbers of all sizes beside 1: the mean error is within four standard errors of zero.
    #[test]
    fn the_mean_error_is_zero() {
        const DRAWS: usize = 1_000_000;
        let xs = [0.77f32, -3.3e-3, 1.001, -7.1e-6, 2.9e-8, 0.1];
        for (seed, x) in xs.into_iter().enumerate() {
            for place in PLACES {
                let x = if place == Place::Other { x.abs() } else { x };
                let grid = grid(1.0, place);
                let above = grid.partition_point(|code| *code < x.abs());
                let above = grid.get(above).copied().unwrap_or(1.125);
                let below = grid.iter().rev().find(|code| **code <= x.abs()).unwrap();
                let step = f64::from(above) - f64::from(*below);
                let key = mixed(seed as u32);
                let mut sum = 0.0;
                let base = base(1f32.to_bits(), place);
                for index in 0..DRAWS {
                    let random = Draw::new(key, index).bits_20(place);
                    let kept = value(code(x, base, random, place), base, place);
                    sum += (f64::from(kept) - f64::from(x)) / step;
                }
                let mean = sum / DRAWS as f64;
                let fraction = (f64::from(x.abs()) - f64::from(*below)) / step;
                let error = (fraction * (1.0 - fraction) / DRAWS as f64).sqrt();
                // A draw has 20 bits.
                assert!(
                    mean.abs() <= 4.0 * error + 2f64.powi(-20),
                    "{place:?}, {x}: {mean}, standard error {error}"
                );
            }
        }
    }

    #[test]
    fn blocks_of_any_length_have_scales_of_their_own() {
        for len in [0, 1, 127, 128, 129, 1000] {
            let values: Vec<f32> = (0..len)
                .map(|at| (1.0 + (at % 8) as f32 / 8.0) * 1000f32.powi((at / BLOCK) as i32 - 4))
                .collect();
            // 1000 is no power of two: what is kept is what the nearest code says.
            let packed = pack(&values, Place::Other, |_| NEAREST);
            assert_eq!(packed.len(), words(len));
            let kept = unpack(&packed, len, Place::Other);
            for (kept, x) in kept.iter().zip(&values) {
                assert!((kept - x).abs() <= x / 16.0, "{kept} for {x}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        for place in PLACES {
            let values = [1.0, f32::INFINITY, f32::NAN, f32::from_bits(0x7f80_0001)];
            let kept = unpack(&pack(&values, place, |_| (1 << SHIFT) - 1), 4, place);
            assert!(kept[1] == f32::INFINITY && kept[2].is_nan() && kept[3].is_nan());
            let zeros = unpack(&pack(&[0.0; 3], place, |_| (1 << SHIFT) - 1), 3, place);
            assert_eq!(zeros, [0.0; 3]);
        }
    }
}
