//! Which numbers of a tensor share a scale, and what it is.

use super::{
    Format,
    format::{Rounding, exponent, power},
};

/// The numbers of a tensor that share a scale. *Along* is the dimension over which a product adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// All of them.
    Tensor,
    /// A row along that dimension.
    Row,
    /// So many neighbours along it.
    Along(usize),
    /// A square of so many numbers along it and across.
    Square(usize),
}

/// How a scale is made of the largest absolute value of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// The scale is 1.
    None,
    /// The largest value becomes the largest number of the format; the scale is an F32.
    Real,
    /// A power of two (E8M0) that is rounded down, as OCP's MX specification 1.0 says: the exponent of the largest value less that
    /// of the format's largest number. Values just below the next power of two saturate.
    PowerDown,
    /// A power of two (E8M0) that is rounded up, so that nothing saturates.
    PowerUp,
    /// An E4M3 number, under an F32 for the tensor that makes the largest of them 448: the scales of NVFP4.
    E4M3,
}

/// The shape of a tensor around the dimension along which blocks lie: `[before, along, behind]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines(pub [usize; 3]);

impl Lines {
    /// The lines of a shape along `dim`.
    pub fn along(shape: &[usize], dim: usize) -> Self {
        let size = |dims: &[usize]| dims.iter().product();
        Self([size(&shape[..dim]), shape[dim], size(&shape[dim + 1..])])
    }
}

/// A format, with the scales of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantizer {
    /// The format.
    pub format: Format,
    /// What shares a scale.
    pub blocks: Blocks,
    /// What the scale is.
    pub scaling: Scaling,
    /// How a number is rounded.
    pub rounding: Rounding,
}

/// Values that were quantized.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The values that they stand for: numbers of the format times their scales.
    pub values: Vec<f64>,
    /// Those that have become 0 and were not.
    pub underflowed: usize,
    /// Those that were beyond the format's largest number.
    pub saturated: usize,
}

impl Quantizer {
    /// Rounds values to the format, in blocks that have scales. Scales and quotients are F32, as on a device. What is not finite stays as it is, and its block has the scale 1.
    ///
    /// # Panics
    ///
    /// Panics if there are not as many values as the lines have.
    pub fn quantize(self, values: &[f64], lines: Lines) -> Quantized {
        assert_eq!(values.len(), lines.0.iter().product::<usize>());
        let mut quantized = Quantized {
            values: vec![0.0; values.len()],
            underflowed: 0,
            saturated: 0,
        };
        let of_tensor = self.of_tensor(largest(values.iter()));
        self.blocks.each(lines, |block| {
            let most = largest(block.iter().map(|at| &values[*at]));
            let scale = self.scale(most, of_tensor);
            for at in block {
                let x = quotient(values[*at], scale);
                let rounded = match self.rounding {
                    Rounding::Nearest => self.format.round(x),
                    Rounding::Stochastic => {
                        let random = Rounding::draw(values[*at] as f32, *at);
                        self.format.round_by(x, random)
                    }
                };
                quantized.values[*at] = match x.is_finite() {
                    true => rounded * scale,
                    false => x,
                };
                quantized.underflowed += usize::from(rounded == 0.0 && x != 0.0);
                quantized.saturated += usize::from(self.format.is_beyond(x));
            }
        });
        quantized
    }

    /// The scale of the tensor above those of the blocks.
    fn of_tensor(self, most: f64) -> f64 {
        match self.scaling {
            Scaling::E4M3 if most > 0.0 && most.is_finite() => {
                quotient(most, Format::E4M3.max() * self.format.max())
            }
            Scaling::E4M3
            | Scaling::None
            | Scaling::Real
            | Scaling::PowerDown
            | Scaling::PowerUp => 1.0,
        }
    }

    /// The scale of a block.
    fn scale(self, most: f64, of_tensor: f64) -> f64 {
        // A block of zeros, or with a value that no scale makes finite.
        if most == 0.0 || !most.is_finite() {
            return 1.0;
        }
        match self.scaling {
            Scaling::None => 1.0,
            Scaling::Real => quotient(most, self.format.max()).max(f64::from(f32::MIN_POSITIVE)),
            Scaling::PowerDown => e8m0(exponent(most) - exponent(self.format.max())),
            Scaling::PowerUp => {
                let least = most / self.format.max();
                let down = exponent(least);
                e8m0(down + i32::from(power(down) < least))
            }
            Scaling::E4M3 => {
                let scale = quotient(quotient(most, self.format.max()), of_tensor);
                // A scale of 0 would make zeros of all; the smallest number takes its place.
                let scale = Format::E4M3.round(scale).max(power(-9));
                f64::from((scale * of_tensor) as f32)
            }
        }
    }
}

/// The quotient of two F32 numbers, in F32.
fn quotient(x: f64, by: f64) -> f64 {
    f64::from((x / by) as f32)
}

/// A power of two in the range of E8M0.
fn e8m0(exponent: i32) -> f64 {
    power(exponent.clamp(-127, 127))
}

/// The largest absolute value; inf if one is not finite.
fn largest<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    values.fold(0.0, |most, x| match x.is_nan() {
        true => f64::INFINITY,
        false => x.abs().max(most),
    })
}

impl Blocks {
    /// Shows the places of the numbers of each block.
    fn each(self, lines: Lines, mut show: impl FnMut(&[usize])) {
        let Lines([before, along, behind]) = lines;
        let (size, across) = match self {
            Self::Tensor => return show(&(0..before * along * behind).collect::<Vec<_>>()),
            Self::Row => (along.max(1), 1),
            Self::Along(size) => (size, 1),
            Self::Square(size) => (size, size),
        };
        // Squares lie across the dimensions before the line, or across those behind it if there are none before.
        let line = along * behind;
        let (others, inner, [to_other, to_inner]) = match before {
            1 => (behind, 1, [1, line]),
            _ => (before, behind, [line, 1]),
        };
        let mut block = Vec::with_capacity(size.min(along) * across.min(others));
        for fixed in 0..inner {
            for first_across in (0..others).step_by(across) {
                for first in (0..along).step_by(size) {
                    block.clear();
                    for other in first_across..others.min(first_across + across) {
                        let start = fixed * to_inner + other * to_other;
                        let all = first..along.min(first + size);
                        block.extend(all.map(|at| start + at * behind));
                    }
                    show(&block);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantizer(format: Format, blocks: Blocks, scaling: Scaling) -> Quantizer {
        Quantizer {
            format,
            blocks,
            scaling,
            rounding: Rounding::Nearest,
        }
    }

    fn all(blocks: Blocks, lines: [usize; 3]) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        blocks.each(Lines(lines), |block| all.push(block.to_vec()));
        all
    }

    #[test]
    fn blocks_are_every_place_once() {
        for lines in [[1, 7, 5], [6, 7, 1], [3, 7, 2], [1, 8, 1]] {
            for (blocks, count) in [
                (Blocks::Tensor, 1),
                (Blocks::Row, lines[0] * lines[2]),
                (Blocks::Along(4), lines[0] * lines[2] * 2),
            ] {
                let blocks = all(blocks, lines);
                assert_eq!(blocks.len(), count, "{lines:?}");
                let mut places: Vec<_> = blocks.concat();
                places.sort_unstable();
                assert!(
                    places.into_iter().eq(0..lines.iter().product()),
                    "{lines:?}"
                );
            }
        }
        // Squares of a weight [along, across] and of one [across, along].
        assert_eq!(all(Blocks::Square(4), [1, 7, 5]).len(), 4);
        assert_eq!(all(Blocks::Square(4), [5, 7, 1]).len(), 4);
        assert_eq!(all(Blocks::Square(2), [1, 2, 3])[0], [0, 3, 1, 4]);
    }

    #[test]
    fn scales_are_those_of_the_specifications() {
        let all = |format, scaling| quantizer(format, Blocks::Tensor, scaling);
        let mx = all(Format::E4M3, Scaling::PowerDown);
        // 2^8 is the exponent of 448.
        assert_eq!(mx.scale(448.0, 1.0), 1.0);
        assert_eq!(mx.scale(511.0, 1.0), 1.0);
        assert_eq!(mx.scale(512.0, 1.0), 2.0);
        let up = all(Format::E4M3, Scaling::PowerUp);
        assert_eq!(up.scale(448.0, 1.0), 1.0);
        assert_eq!(up.scale(448.1, 1.0), 2.0);
        assert_eq!(up.scale(1e-300, 1.0), power(-127));
        assert_eq!(all(Format::Int8, Scaling::Real).scale(254.0, 1.0), 2.0);
        let nv = all(Format::E2M1, Scaling::E4M3);
        // The block with the largest value has the largest scale.
        let of_tensor = nv.of_tensor(2688.0);
        assert_eq!((of_tensor, nv.scale(2688.0, of_tensor)), (1.0, 448.0));
        assert_eq!(nv.scale(7.0, of_tensor), 1.125);
    }

    #[test]
    fn what_saturates_and_what_becomes_zero_is_counted() {
        let lines = Lines([1, 4, 1]);
        let naive = quantizer(Format::E4M3, Blocks::Tensor, Scaling::None);
        let found = naive.quantize(&[1e3, 1e-4, 0.0, -1.03], lines);
        assert_eq!(found.values, [448.0, 0.0, 0.0, -1.0]);
        assert_eq!((found.underflowed, found.saturated), (1, 1));
        // In two blocks of two the small one keeps its bits.
        let blocks = quantizer(Format::Int8, Blocks::Along(2), Scaling::Real);
        let found = blocks.quantize(&[127.0, 1.0, 1e-3, -1e-3], lines);
        assert_eq!(found.values[..2], [127.0, 1.0]);
        assert!((found.values[2] - 1e-3).abs() < 1e-9, "{found:?}");
        let floor = quantizer(Format::E4M3, Blocks::Tensor, Scaling::PowerDown);
        assert_eq!(floor.quantize(&[511.0; 4], lines).saturated, 4);
        let up = quantizer(Format::E4M3, Blocks::Tensor, Scaling::PowerUp);
        assert_eq!(up.quantize(&[511.0; 4], lines).saturated, 0);
        assert!(up.quantize(&[f64::NAN; 4], lines).values[0].is_nan());
        // An inf stays, and leaves the other blocks as they are.
        let nv = quantizer(Format::E2M1, Blocks::Along(2), Scaling::E4M3);
        let found = nv.quantize(&[f64::INFINITY, 1.0, 6.0, 3.0], lines);
        assert_eq!(found.values, [f64::INFINITY, 1.0, 6.0, 3.0]);
    }
}
