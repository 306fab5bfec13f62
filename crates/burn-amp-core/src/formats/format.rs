//! Formats of eight bits and fewer.

use crate::random::mixed;

/// A format of numbers of eight bits or fewer.
///
/// E4M3 and E5M2 are those of OCP's 8-bit Floating Point Specification (OFP8) 1.0, E2M1 that of its Microscaling Formats (MX)
/// Specification 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 4 bits of exponent, 3 of mantissa, no infinities: up to 448.
    E4M3,
    /// 5 bits of exponent, 2 of mantissa: up to 57344.
    E5M2,
    /// Four bits: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, with signs.
    E2M1,
    /// The whole numbers from -127 to 127, so that each has its negative.
    Int8,
}

/// To which of its two neighbours a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The nearest, ties to even.
    Nearest,
    /// The upper one with the probability that makes the mean right: the distance from the lower one, in steps.
    Stochastic,
}

impl Rounding {
    /// Random bits for the number at a place of a tensor. They are a function of number and place, so that a step which is
    /// run again rounds as it did, and other numbers in the next step draw others.
    pub fn draw(x: f32, place: usize) -> u32 {
        mixed(x.to_bits() ^ mixed(place as u32))
    }
}

/// How far apart the neighbours of a format are: between `2^e` and `2^(e + 1)` by `2^(e - mantissa)`, and below
/// `2^least_exponent` as just above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// The bits of the mantissa, without the leading one.
    pub mantissa: i32,
    /// The exponent of the smallest normal number.
    pub least_exponent: i32,
}

/// The fields of a float.
struct Fields {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    /// The largest finite number.
    max: f64,
    /// The code of what is beyond it, without its sign; `None` if the format has only finite numbers.
    beyond: Option<u8>,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::E4M3, Self::E5M2, Self::E2M1, Self::Int8];

    /// The name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::E4M3 => "e4m3",
            Self::E5M2 => "e5m2",
            Self::E2M1 => "e2m1",
            Self::Int8 => "int8",
        }
    }

    /// The largest finite number.
    pub fn max(self) -> f64 {
        self.fields().map_or(127.0, |fields| fields.max)
    }

    /// How far apart neighbours are.
    pub fn grid(self) -> Grid {
        match self.fields() {
            Some(fields) => Grid {
                mantissa: fields.mantissa as i32,
                least_exponent: 1 - fields.bias,
            },
            // Whole numbers below 2^7.
            None => Grid {
                mantissa: 7,
                least_exponent: 7,
            },
        }
    }

    fn fields(self) -> Option<Fields> {
        let (exponent, mantissa, bias, max, beyond) = match self {
            // 0x7f is its only NaN, and there is no inf.
            Self::E4M3 => (4, 3, 7, 448.0, Some(0x7f)),
            Self::E5M2 => (5, 2, 15, 57344.0, Some(0x7c)),
            Self::E2M1 => (2, 1, 1, 6.0, None),
            Self::Int8 => return None,
        };
        Some(Fields {
            exponent,
            mantissa,
            bias,
            max,
            beyond,
        })
    }

    /// The number nearest to `x`, ties to even; beyond the range the largest one. NaN stays NaN.
    pub fn round(self, x: f64) -> f64 {
        self.grid().nearest(x).clamp(-self.max(), self.max())
    }

    /// The number above or below `x`, by 24 of these random bits: the mean over all of them is `x`, in the range of the format.
    pub fn round_by(self, x: f64, random: u32) -> f64 {
        let rounded = self.grid().drawn(x, random);
        rounded.clamp(-self.max(), self.max())
    }

    /// Whether `x` would round to a number beyond the largest one, if there were any.
    pub fn is_beyond(self, x: f64) -> bool {
        self.grid().nearest(x).abs() > self.max()
    }

    /// The code of the number nearest to `x`, ties to even. Beyond the range it is that of inf, of NaN if the format has no inf,
    /// and of the largest number if it has neither, or if the format `saturates`.
    ///
    /// NaN is 0x7f or, negative, 0xff, in E5M2 0x7e or 0xfe; in formats without NaN it is 0.
    pub fn encode(self, x: f64, saturates: bool) -> u8 {
        let Some(fields) = self.fields() else {
            return match x.is_nan() {
                true => 0,
                false => self.round(x) as i8 as u8,
            };
        };
        let sign = u8::from(x.is_sign_negative()) << (fields.exponent + fields.mantissa);
        if x.is_nan() {
            let nan = match self {
                Self::E4M3 => 0x7f,
                Self::E5M2 => 0x7e,
                Self::E2M1 | Self::Int8 => return 0,
            };
            return sign | nan;
        }
        let nearest = self.grid().nearest(x.abs());
        match fields.beyond {
            Some(beyond) if nearest > fields.max && !saturates => sign | beyond,
            _ => sign | self.grid().code(nearest.min(fields.max)),
        }
    }

    /// The number of a code.
    pub fn decode(self, code: u8) -> f64 {
        let Some(fields) = self.fields() else {
            return f64::from(code as i8);
        };
        let signed = fields.exponent + fields.mantissa;
        let sign = if code >> signed & 1 == 1 { -1.0 } else { 1.0 };
        let code = code & ((1 << signed) - 1);
        match (self, code) {
            (Self::E4M3, 0x7f) | (Self::E5M2, 0x7d..) => f64::NAN,
            (Self::E5M2, 0x7c) => sign * f64::INFINITY,
            _ => sign * fields.number(code),
        }
    }
}

impl Fields {
    /// The number of a code without a sign.
    fn number(&self, code: u8) -> f64 {
        let exponent = i32::from(code >> self.mantissa);
        let mantissa = f64::from(code & ((1 << self.mantissa) - 1)) / power(self.mantissa as i32);
        match exponent {
            0 => mantissa * power(1 - self.bias),
            _ => (1.0 + mantissa) * power(exponent - self.bias),
        }
    }
}

impl Grid {
    /// The distance of neighbours at `x`.
    fn unit(self, x: f64) -> f64 {
        let exponent = exponent(x.abs()).max(self.least_exponent);
        power(exponent - self.mantissa)
    }

    /// The nearest number of a format without a largest one.
    fn nearest(self, x: f64) -> f64 {
        let unit = self.unit(x);
        // A quotient by a power of two is exact.
        (x / unit).round_ties_even() * unit
    }

    /// The number above or below, by random bits.
    fn drawn(self, x: f64, random: u32) -> f64 {
        let unit = self.unit(x);
        let steps = x / unit;
        let below = steps.floor();
        let is_above = f64::from(random >> 8) < (steps - below) * power(24);
        (below + f64::from(u8::from(is_above))) * unit
    }

    /// The code of a number of the format that is not negative.
    fn code(self, x: f64) -> u8 {
        let exponent = exponent(x).max(self.least_exponent);
        let mantissa = (x / power(exponent - self.mantissa)) as i32;
        // A normal number has a leading one, which adds one to the exponent.
        (((exponent - self.least_exponent) << self.mantissa) + mantissa) as u8
    }
}

/// The bias of the exponent of an F64.
const BIAS: i32 = 1023;

/// The exponent of the power of two at or below `x`, which is not negative; of 0 that of the smallest F64.
pub(super) fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52) as i32 - BIAS
}

/// A power of two that is a normal F64; a smaller one becomes the smallest of these.
pub(super) fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + BIAS).max(1) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// Where the codes change over all F16 and BF16 numbers, and the numbers of all codes, as gfloat 0.5.2 and ml_dtypes 0.6.0
    /// have them: `tests/formats.py` writes the file.
    const EXPECTED: &str = include_str!("../../tests/data/formats.txt");

    #[test]
    fn codes_are_those_of_gfloat_and_ml_dtypes_for_all_f16_and_bf16_numbers() {
        let mut lines = EXPECTED.lines().filter(|line| !line.starts_with('#'));
        let mut tables = 0;
        while let Some(head) = lines.next() {
            let words: Vec<_> = head.split(' ').collect();
            let format = Format::ALL
                .into_iter()
                .find(|format| format.name() == words[0]);
            let format = format.expect("a format");
            let runs = lines.next().expect("a line of runs");
            let mut runs = runs.split(' ').map(|run| {
                let (count, code) = run.split_once(':').expect("count and code");
                (count.parse::<usize>().unwrap(), code)
            });
            tables += 1;
            if words[1] == "numbers" {
                for (code, (_, number)) in runs.enumerate() {
                    let expected: f64 = number.parse().unwrap();
                    let found = format.decode(code as u8);
                    let is_same = found.is_nan() && expected.is_nan() || found == expected;
                    assert!(is_same, "{head}: {code:#x}: {found}, not {expected}");
                }
                continue;
            }
            let saturates = words[2] == "saturates";
            let mut left = 0;
            let mut expected = "";
            for bits in 0..=u16::MAX {
                if left == 0 {
                    (left, expected) = runs.next().expect("a run");
                }
                left -= 1;
                let x = match words[1] {
                    "f16" => f16::from_bits(bits).to_f64(),
                    _ => bf16::from_bits(bits).to_f64(),
                };
                let is_left_out = expected == "-";
                let code = format!("{:02x}", format.encode(x, saturates));
                assert!(
                    is_left_out || code == expected,
                    "{head}: {x}: {code}, not {expected}"
                );
            }
            assert_eq!((left, runs.next()), (0, None), "{head}");
        }
        assert_eq!(tables, 2 * (2 * 2 + 1) + 2 + 1);
    }

    /// The mean of draws is the number, and a number of the format stays.
    #[test]
    fn stochastic_rounding_is_right_on_average() {
        // -1.35 lies between -1.5 and -1: seven tenths of the way.
        let draws = |at: u32| Format::E2M1.round_by(-1.35, at << 12);
        let all = 1 << 20;
        let lower = (0..all).filter(|at| draws(*at) == -1.5).count();
        assert!(
            (lower as f64 / f64::from(all) - 0.7).abs() < 1e-6,
            "{lower}"
        );
        for format in Format::ALL {
            for code in 0..=u8::MAX {
                let x = format.decode(code);
                if x.is_finite() && x.abs() <= format.max() {
                    for random in [0, 1 << 31, u32::MAX] {
                        assert_eq!(format.round_by(x, random), x, "{}", format.name());
                    }
                }
            }
        }
        let places = (0..all as usize).map(|place| Rounding::draw(-1.35, place));
        let lower = places.filter(|random| Format::E2M1.round_by(-1.35, *random) == -1.5);
        // The standard error of a share of 2^20 draws is 4.5e-4.
        assert!((lower.count() as f64 / f64::from(all) - 0.7).abs() < 1.8e-3);
    }

    #[test]
    fn a_rounded_number_is_the_number_of_its_code() {
        for format in Format::ALL {
            for bits in 0..=u16::MAX {
                let x = f16::from_bits(bits).to_f64();
                if x.is_nan() {
                    continue;
                }
                let code = format.encode(x, true);
                assert_eq!(
                    format.round(x),
                    format.decode(code),
                    "{} {x}",
                    format.name()
                );
            }
        }
    }
}
