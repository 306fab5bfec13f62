//! Float dtypes and their promotion lattice.

use std::{fmt, str::FromStr};

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// A float dtype that a Burn tensor can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE 754 double precision; the policy never casts it.
    F64,
    /// IEEE 754 single precision.
    F32,
    /// CubeCL's dtype that is stored as F32 and may be computed in lower precision.
    Flex32,
    /// IEEE 754 half precision: 10 bits of mantissa, largest value 65504.
    F16,
    /// The upper half of an F32: 7 bits of mantissa, the range of F32.
    BF16,
}

impl Precision {
    /// Every dtype, widest first.
    pub const ALL: [Self; 5] = [Self::F64, Self::F32, Self::Flex32, Self::F16, Self::BF16];

    /// The least upper bound of two dtypes.
    ///
    /// F16, BF16 and Flex32 are below F32 and not comparable with each other, so the join of F16 and BF16 is F32. F64
    /// is above all others.
    #[inline]
    pub const fn join(self, other: Self) -> Self {
        if self as u8 == other as u8 {
            return self;
        }
        match (self, other) {
            (Self::F64, _) | (_, Self::F64) => Self::F64,
            (Self::F32 | Self::Flex32 | Self::F16 | Self::BF16, _) => Self::F32,
        }
    }

    /// Whether this is F16 or BF16.
    #[inline]
    pub const fn is_low(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// The value nearest to `x` in this dtype, ties to even; overflow gives ±inf.
    pub fn round(self, x: f64) -> f64 {
        match self {
            Self::F64 => x,
            Self::F32 | Self::Flex32 => f64::from(x as f32),
            Self::F16 => f16::from_f32(to_odd(x)).to_f64(),
            Self::BF16 => bf16::from_f32(to_odd(x)).to_f64(),
        }
    }

    /// The smallest positive normal value.
    pub fn min_positive(self) -> f64 {
        match self {
            Self::F64 => f64::MIN_POSITIVE,
            Self::F32 | Self::Flex32 => f64::from(f32::MIN_POSITIVE),
            Self::F16 => f16::MIN_POSITIVE.to_f64(),
            Self::BF16 => bf16::MIN_POSITIVE.to_f64(),
        }
    }

    /// The largest finite value.
    pub fn max(self) -> f64 {
        match self {
            Self::F64 => f64::MAX,
            Self::F32 | Self::Flex32 => f64::from(f32::MAX),
            Self::F16 => f16::MAX.to_f64(),
            Self::BF16 => bf16::MAX.to_f64(),
        }
    }

    /// The distance from 1 to the next larger value.
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON,
            Self::F32 | Self::Flex32 => f64::from(f32::EPSILON),
            Self::F16 => f16::EPSILON.to_f64(),
            Self::BF16 => bf16::EPSILON.to_f64(),
        }
    }

    /// The bytes of a number in memory.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Flex32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// The name used in files and reports: `f64`, `f32`, `flex32`, `f16`, `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Flex32 => "flex32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }
}

/// The F32 number that rounds like `x` to every dtype of at most 22 bits: if bits are lost, the last one is odd, so that
/// it is no tie. `half` 2.7 drops the last 32 bits of an F64, and a number just above a tie becomes one.
fn to_odd(x: f64) -> f32 {
    let rounded = x as f32;
    if f64::from(rounded) == x || x.is_nan() {
        return rounded;
    }
    let is_larger = f64::from(rounded).abs() > x.abs();
    f32::from_bits((rounded.to_bits() - u32::from(is_larger)) | 1)
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_dtype() -> impl Strategy<Value = Precision> {
        prop::sample::select(Precision::ALL.as_slice())
    }

    proptest! {
        #[test]
        fn join_is_commutative_associative_and_idempotent(a in any_dtype(), b in any_dtype(), c in any_dtype()) {
            prop_assert_eq!(a.join(b), b.join(a));
            prop_assert_eq!(a.join(b).join(c), a.join(b.join(c)));
            prop_assert_eq!(a.join(a), a);
        }

        #[test]
        fn every_value_of_the_operands_is_exact_in_their_join(a in any_dtype(), b in any_dtype(), x in any::<f32>()) {
            let value = a.round(f64::from(x));
            prop_assume!(!value.is_nan());
            prop_assert_eq!(a.join(b).round(value), value);
        }
    }

    #[test]
    fn f16_with_bf16_is_f32() {
        assert_eq!(Precision::F16.join(Precision::BF16), Precision::F32);
        assert_eq!(Precision::BF16.join(Precision::BF16), Precision::BF16);
        assert_eq!(Precision::F32.join(Precision::F64), Precision::F64);
    }

    #[test]
    fn rounding_follows_the_published_cases() {
        for (x, in_f16, in_bf16) in [
            (0.999, 0.9990234375, 1.0),
            (0.9999, 1.0, 1.0),
            (257.0, 257.0, 256.0),
            (2049.0, 2048.0, 2048.0),
            (65519.99, 65504.0, 65536.0),
            (65520.0, f64::INFINITY, 65536.0),
        ] {
            assert_eq!(Precision::F16.round(x), in_f16);
            assert_eq!(Precision::BF16.round(x), in_bf16);
        }
        // Half way between 230/256 and 231/256, and a little above.
        let tie = 461.0 / 512.0;
        assert_eq!(Precision::BF16.round(tie), 230.0 / 256.0);
        assert_eq!(Precision::BF16.round(tie + 1e-12), 231.0 / 256.0);
        assert_eq!(Precision::F16.round(2049.0), 2048.0);
        assert_eq!(Precision::F16.round(-2049.0 - 1e-7), -2050.0);
        assert_eq!(Precision::F16.round(1e300), f64::INFINITY);
        assert_eq!(Precision::F16.round(1e-8), 0.0);
    }
}
