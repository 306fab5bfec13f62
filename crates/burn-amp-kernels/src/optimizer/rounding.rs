//! Stochastic rounding of F32 to BF16 and to 24 bits, on the host; the kernel computes the same bits.
//!
//! Law: moments in 2 bytes are right on average.
//!
//! A number between two neighbours is rounded to the one that is further from zero with a probability that is its distance
//! from the other one, in steps. So the mean of many roundings is the number, and a number that the format has is not
//! changed. The random numbers are a function of a key, which is one of the seed, the parameter and the step, and of the
//! index of the element: a run that is resumed draws the same ones.

use super::place::Place;

pub use burn_amp_core::random::mixed;

/// The random numbers of one element.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    bits: u32,
}

impl Draw {
    /// Draws for the element at `index` of the tensor with this key.
    pub fn new(key: u32, index: usize) -> Self {
        Self {
            // Tensors of more than 2^32 elements repeat their numbers.
            bits: mixed(index as u32 ^ key),
        }
    }

    /// 16 bits for a moment in BF16. The second moment and the largest one get the same, so that it stays the largest.
    pub fn bits_16(self, place: Place) -> u32 {
        match place {
            Place::First => self.bits & LOW,
            Place::Other => self.bits >> 16,
        }
    }

    /// 20 bits for a moment in [blocks](super::blocks).
    pub fn bits_20(self, place: Place) -> u32 {
        match place {
            Place::First => self.bits & 0xf_ffff,
            Place::Other => mixed(!self.bits) >> 12,
        }
    }

    /// As many bits for the parameter as are dropped of it.
    pub fn for_parameter(self, dropped: u32) -> u32 {
        mixed(self.bits) & dropped
    }
}

/// The bits of an F32 that BF16 does not have.
pub const LOW: u32 = 0xffff;

/// The bits of an F32 that a master of 24 bits does not have.
pub const LOWEST: u32 = 0xff;

/// The random bits that round to the nearest.
pub const NEAREST: u32 = 0x8000;

/// Rounds to BF16, with 16 random bits; returns its bits.
pub fn to_bf16(x: f32, random: u32) -> u16 {
    (without(LOW, x, random).to_bits() >> 16) as u16
}

/// Drops low bits of a number, with as many random bits. Infinities and NaN stay what they are. A number above the largest
/// without these bits may become infinite.
pub fn without(dropped: u32, x: f32, random: u32) -> f32 {
    let bits = x.to_bits();
    let rounded = if x.is_finite() {
        bits + random
    } else {
        // A quiet NaN has a bit that BF16 has, too.
        bits | u32::from(x.is_nan()) << 22
    };
    f32::from_bits(rounded & !dropped)
}

/// Widens the bits of a BF16.
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Packs two BF16 into each word, the first in the lower half.
pub fn pack(values: impl Iterator<Item = u16>) -> Vec<u32> {
    let mut words = Vec::new();
    for (at, value) in values.enumerate() {
        match (at % 2, words.last_mut()) {
            (1, Some(word)) => *word |= u32::from(value) << 16,
            _ => words.push(u32::from(value)),
        }
    }
    words
}

/// Unpacks the bits of `len` numbers in BF16.
pub fn unpack(words: impl Iterator<Item = u32>, len: usize) -> Vec<u16> {
    let halves = words.flat_map(|word| [word as u16, (word >> 16) as u16]);
    halves.take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_bf16_has_is_not_changed() {
        for bits in 0..=u16::MAX {
            let x = from_bf16(bits);
            for random in [0, 1, 0x8000, 0xffff] {
                let rounded = to_bf16(x, random);
                if x.is_nan() {
                    assert!(from_bf16(rounded).is_nan());
                } else {
                    assert_eq!(rounded, bits);
                }
            }
        }
    }

    /// A million draws of numbers of all sizes: the mean error is within four standard errors of zero.
    #[test]
    fn the_mean_error_is_zero() {
        const DRAWS: usize = 1_000_000;
        for (seed, x) in [1.001f32, -3.3e-5, 1.7e30, 2.1e-39, -1e-45, 65500.0]
            .into_iter()
            .enumerate()
        {
            let below = from_bf16((x.to_bits() >> 16) as u16);
            let above = from_bf16((x.to_bits() >> 16) as u16 + 1);
            let step = f64::from(above) - f64::from(below);
            let key = mixed(seed as u32);
            let whiches: [fn(Draw) -> u32; 3] = [
                |draw| draw.bits_16(Place::First),
                |draw| draw.bits_16(Place::Other),
                |draw| draw.for_parameter(LOW),
            ];
            for which in whiches {
                let errors = (0..DRAWS).map(|index| {
                    let rounded = from_bf16(to_bf16(x, which(Draw::new(key, index))));
                    assert!(rounded == below || rounded == above);
                    (f64::from(rounded) - f64::from(x)) / step
                });
                let mean = errors.sum::<f64>() / DRAWS as f64;
                let fraction = (f64::from(x) - f64::from(below)) / step;
                let error = (fraction * (1.0 - fraction) / DRAWS as f64).sqrt();
                assert!(
                    mean.abs() <= 4.0 * error,
                    "{x}: {mean}, standard error {error}"
                );
            }
        }
    }

    /// Neighbouring elements, steps and keys draw numbers that are not correlated.
    #[test]
    fn draws_are_independent() {
        const DRAWS: u32 = 1 << 16;
        let uniform = |key: u32, index: u32| {
            f64::from(Draw::new(key, index as usize).bits_16(Place::First)) / 65536.0 - 0.5
        };
        /// Two keys with their indices.
        type Pair = fn(u32) -> [(u32, u32); 2];
        let pairs: [Pair; 3] = [
            |at| [(7, at), (7, at + 1)],
            |at| [(mixed(3), at), (mixed(4), at)],
            |at| [(mixed(at), 0), (mixed(at + 1), 0)],
        ];
        for pair in pairs {
            let products = (0..DRAWS).map(|at| {
                let [a, b] = pair(at);
                uniform(a.0, a.1) * uniform(b.0, b.1)
            });
            // The product of two independent uniform numbers has the standard deviation 1/12.
            let mean = products.sum::<f64>() / f64::from(DRAWS);
            let error = 1.0 / 12.0 / f64::from(DRAWS).sqrt();
            assert!(mean.abs() <= 4.0 * error, "{mean}, standard error {error}");
        }
    }

    #[test]
    fn words_hold_two_each() {
        for len in 0..6usize {
            let values: Vec<_> = (0..len).map(|at| at as u16 * 257 + 1).collect();
            let words = pack(values.iter().copied());
            assert_eq!(words.len(), len.div_ceil(2));
            assert_eq!(unpack(words.into_iter(), len), values);
        }
    }
}
