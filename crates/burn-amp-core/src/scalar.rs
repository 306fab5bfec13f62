//! The scalar guard, which detects scalar operands that a low dtype would change by more than rounding.

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

#[cfg(test)]
mod tests {
    use super::*;

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
