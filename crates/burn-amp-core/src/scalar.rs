//! Scalar operands of ops on tensors in low precision: whether the dtype would lose a scalar, and its neighbours there.

use half::{bf16, f16};

use crate::Precision;

/// Whether rounding to `dtype` changes `x` to 0, ±inf or ±1.
///
/// In F16, `1e-8` is 0 and `-1e9` is -inf; in BF16, `0.999` is 1. An op with such an operand runs in F32.
pub fn is_lost(x: f64, dtype: Precision) -> bool {
    let rounded = dtype.round(x);
    rounded != x && (rounded == 0.0 || rounded.is_infinite() || rounded.abs() == 1.0)
}

/// Whether a division by `x` must not run in `dtype`: `x` or `1/x` is [lost](is_lost), or `1/x` is subnormal.
///
/// The reciprocal counts because the backward pass multiplies by it. For a mean over more than 16384 elements, `1/n`
/// is subnormal in F16.
pub fn is_lost_divisor(x: f64, dtype: Precision) -> bool {
    let reciprocal = 1.0 / x;
    let subnormal = reciprocal != 0.0 && reciprocal.abs() < dtype.min_positive();
    is_lost(x, dtype) || is_lost(reciprocal, dtype) || subnormal
}

/// Whether rounding to `dtype` changes `x`.
pub fn is_rounded(x: f64, dtype: Precision) -> bool {
    !x.is_nan() && dtype.round(x) != x
}

/// The largest value of `dtype` that is at most `x`; NaN for NaN.
pub fn floor(x: f64, dtype: Precision) -> f64 {
    match dtype.round(x) {
        rounded if rounded > x => next_below(rounded, dtype),
        rounded => rounded,
    }
}

/// The smallest value of `dtype` that is at least `x`; NaN for NaN.
pub fn ceil(x: f64, dtype: Precision) -> f64 {
    -floor(-x, dtype)
}

/// The largest value of `dtype` below `x`, which is a value of `dtype` itself and not -inf.
fn next_below(x: f64, dtype: Precision) -> f64 {
    /// Of a format in sign and magnitude; `bits` are those of a positive or negative value other than zero.
    fn below(bits: u16) -> u16 {
        let is_negative = bits & 0x8000 != 0;
        if is_negative { bits + 1 } else { bits - 1 }
    }

    /// The bits of the negative value next to zero.
    const BELOW_ZERO: u16 = 0x8001;

    match dtype {
        Precision::F64 => x.next_down(),
        Precision::F32 | Precision::Flex32 => f64::from((x as f32).next_down()),
        Precision::F16 if x == 0.0 => f16::from_bits(BELOW_ZERO).to_f64(),
        Precision::F16 => f16::from_bits(below(f16::from_f64(x).to_bits())).to_f64(),
        Precision::BF16 if x == 0.0 => bf16::from_bits(BELOW_ZERO).to_f64(),
        Precision::BF16 => bf16::from_bits(below(bf16::from_f64(x).to_bits())).to_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_value_of_the_dtype_is_between_a_scalar_and_its_floor_or_ceiling(x in any::<f32>()) {
            prop_assume!(!x.is_nan());
            for dtype in [Precision::F16, Precision::BF16] {
                let x = f64::from(x);
                let (below, above) = (floor(x, dtype), ceil(x, dtype));
                prop_assert!(below <= x && x <= above);
                prop_assert_eq!(dtype.round(below), below);
                prop_assert_eq!(dtype.round(above), above);
                prop_assert_eq!(below == above, !is_rounded(x, dtype));
                if below < above {
                    prop_assert_eq!(next_below(above, dtype), below);
                }
            }
        }
    }

    #[test]
    fn floor_and_ceil_step_over_zero_and_stop_at_the_ends() {
        let smallest = f16::from_bits(1).to_f64();
        assert_eq!(
            (floor(1e-9, Precision::F16), ceil(1e-9, Precision::F16)),
            (0.0, smallest)
        );
        assert_eq!(
            (floor(-1e-9, Precision::F16), ceil(-1e-9, Precision::F16)),
            (-smallest, 0.0)
        );
        assert_eq!(floor(1e9, Precision::F16), 65504.0);
        assert_eq!(ceil(1e9, Precision::F16), f64::INFINITY);
        assert_eq!(floor(0.3, Precision::F64), 0.3);
        assert_eq!(floor(0.1, Precision::F32), f64::from(0.1f32.next_down()));
        assert!(floor(f64::NAN, Precision::BF16).is_nan());
    }

    #[test]
    fn zero_infinity_and_one_are_guarded() {
        for x in [1e-8, -1e-8, 1e9, -1e9, 0.9999, 1.0001] {
            assert!(is_lost(x, Precision::F16), "{x}");
        }
        assert!(is_lost(0.999, Precision::BF16));
        assert!(!is_lost(0.999, Precision::F16));
        assert!(!is_lost(1e-8, Precision::BF16));
    }

    #[test]
    fn exact_and_merely_rounded_scalars_pass() {
        for x in [
            0.0,
            1.0,
            -1.0,
            0.5,
            0.1,
            1e-5,
            -1e4,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ] {
            assert!(!is_lost(x, Precision::F16), "{x}");
            assert!(!is_lost(x, Precision::BF16), "{x}");
        }
    }

    #[test]
    fn a_divisor_is_guarded_by_its_reciprocal_too() {
        assert!(is_lost_divisor(65536.0, Precision::F16)); // x is inf
        assert!(is_lost_divisor(20000.0, Precision::F16)); // 1/x is subnormal
        assert!(is_lost_divisor(1e-5, Precision::F16)); // 1/x is inf
        assert!(!is_lost_divisor(16384.0, Precision::F16));
        assert!(!is_lost_divisor(65536.0, Precision::BF16));
    }
}
