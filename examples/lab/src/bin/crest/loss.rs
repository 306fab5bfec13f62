//! The signal to noise of a format at a crest factor: measured, and by theory.

use burn_amp_core::{
    formats::{Blocks, Format, Lines, Quantizer, Rounding, Scaling},
    replay::decibels,
};

/// A format with the kind of its scales.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    format: Format,
    scaling: Scaling,
}

/// The values of a block, besides the largest one.
const VALUES: usize = 4096;

/// How many sizes a block is measured in, from one power of two to the next: where scales are powers of two, their rounding
/// depends on it.
const SIZES: i32 = 16;

impl Kind {
    pub const fn new(name: &'static str, format: Format, scaling: Scaling) -> Self {
        Self {
            name,
            format,
            scaling,
        }
    }

    /// The signal to noise of normal values in dB, in a block whose largest value is `crest` times their root mean square.
    pub fn measured(&self, crest: f64) -> f64 {
        let quantizer = Quantizer {
            format: self.format,
            blocks: Blocks::Tensor,
            scaling: self.scaling,
            rounding: Rounding::Nearest,
        };
        let (mut exact, mut found) = (Vec::new(), Vec::new());
        for size in 0..SIZES {
            let size = f64::from(size) / f64::from(SIZES);
            let size = size.exp2();
            // Values beyond the largest one would make another scale.
            let mut values: Vec<f64> = normal().map(|x| x.clamp(-crest, crest) * size).collect();
            values.push(crest * size);
            let quantized = quantizer
                .quantize(&values, Lines([1, values.len(), 1]))
                .values;
            // The largest value is no part of what is measured: each size counts the same.
            let part = |values: &[f64]| -> Vec<f64> {
                values[..VALUES].iter().map(|x| x / size).collect()
            };
            exact.extend(part(&values));
            found.extend(part(&quantized));
        }
        decibels(&found, &exact).expect("the values are not zero")
    }

    /// The same by theory; `None` where it has no short form.
    pub fn theory(&self, crest: f64) -> Option<f64> {
        // The root mean square of a factor between 1 and 2 whose logarithm is uniform.
        let of_powers = match self.scaling {
            Scaling::PowerUp => 10.0 * (3.0 / (2.0 * 2f64.ln())).log10(),
            _ => 0.0,
        };
        match self.format {
            // Steps of the largest value over 127, with errors of a twelfth of their square.
            Format::Int8 => {
                Some(10.0 * (12.0 * 127.0 * 127.0f64).log10() - 20.0 * crest.log10() - of_powers)
            }
            Format::E4M3 => Some(of_mantissa(3)),
            Format::E5M2 => Some(of_mantissa(2)),
            // Most of its numbers are subnormal.
            Format::E2M1 => None,
        }
    }
}

/// The signal to noise of floats with so many bits of mantissa, as the paper has it: errors of a twelfth of the square of steps of
/// `2^(e - bits)`, over squares of values of `2 * 4^e`, from `4^e` to four times that.
fn of_mantissa(bits: i32) -> f64 {
    10.0 * (24.0 * 4f64.powi(bits)).log10()
}

/// Normal values of variance 1, the same in each call (Box and Muller).
fn normal() -> impl Iterator<Item = f64> {
    let uniform = |at: u64| {
        // The finalizer of SplitMix64.
        let mut bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (1..=VALUES as u64).map(move |at| {
        let [radius, angle] = [2 * at, 2 * at + 1].map(uniform);
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    })
}

/// The crest factor between 2.5 and 40 up to which a difference is positive.
pub fn crossing(difference: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (2.5f64, 40.0f64);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        match difference(middle) > 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_what_the_theory_says() {
        for (format, scaling, allowed) in [
            // The mean square of 4096 values has a standard deviation of 0.1 dB.
            (Format::Int8, Scaling::Real, 0.3),
            (Format::Int8, Scaling::PowerUp, 0.3),
            // Mantissas of normal values are not quite uniform, besides.
            (Format::E4M3, Scaling::Real, 0.6),
            (Format::E4M3, Scaling::PowerUp, 0.6),
            (Format::E5M2, Scaling::Real, 0.6),
        ] {
            let kind = Kind::new("", format, scaling);
            for crest in [4.0, 7.0, 15.0, 30.0] {
                let (found, expected) = (kind.measured(crest), kind.theory(crest).unwrap());
                assert!(
                    (found - expected).abs() < allowed,
                    "{format:?} {scaling:?} {crest}: {found}, not {expected}"
                );
            }
        }
        let [int, float] = [Format::Int8, Format::E4M3];
        let kind = |format| Kind::new("", format, Scaling::PowerUp);
        let found = crossing(|crest| kind(int).measured(crest) - kind(float).measured(crest));
        // 7.55 in the paper, for scales that are 1.5 times as large as they could be.
        assert!((found / 7.55 - 1.0).abs() < 0.1, "{found}");
    }
}
