//! How far values are from the exact ones, in units in the last place.

use crate::Precision;

/// The distance of the numbers of a dtype at `x`; at 0 and below the smallest normal one that of the subnormal ones.
pub(super) fn ulp(dtype: Precision, x: f64) -> f64 {
    let magnitude = x.abs().max(dtype.min_positive());
    // A float has its exponent in the bits above its mantissa.
    let power = f64::from_bits(magnitude.to_bits() & !((1 << 52) - 1));
    power * dtype.epsilon()
}

/// The lowest of the dtypes in which all of the values are exact: F16 or BF16 as `low` says, else `stored`.
pub(super) fn rounded_to(values: &[f64], low: Option<Precision>, stored: Precision) -> Precision {
    match low {
        Some(low) if values.iter().all(|x| x.is_nan() || low.round(*x) == *x) => low,
        Some(_) | None => stored,
    }
}

/// The distance of values from the exact ones: of each the difference, over a unit in the last place of `dtype`, the
/// spread of the exact value and an `absolute` error.
///
/// A value that is not finite where the exact one rounds to a finite number is infinitely far, and so is the reverse.
pub(super) fn distances<'a>(
    found: &'a [f64],
    exact: &'a [f64],
    spread: &'a [f64],
    absolute: f64,
    dtype: Precision,
) -> impl Iterator<Item = f64> + 'a {
    found
        .iter()
        .zip(exact)
        .enumerate()
        .map(move |(at, (x, y))| {
            let spread = spread.get(at).map_or(absolute, |spread| spread + absolute);
            if !x.is_finite() || !y.is_finite() {
                // Beyond the range of the dtype, inf is the rounded value; just below its end it may be.
                let end = |y: f64| dtype.round(y * (1.0 + 4.0 * dtype.epsilon()));
                let is_same =
                    x.is_nan() && y.is_nan() || *x == *y || *x == end(*y + spread.copysign(*y));
                return if is_same { 0.0 } else { f64::INFINITY };
            }
            let difference = (x - y).abs();
            // Subnormal numbers of F32 may be taken for zero. Those of F16 are what gradients are made of.
            let is_flushed = dtype != Precision::F16 && difference <= Precision::F32.min_positive();
            if difference == 0.0 || is_flushed {
                return 0.0;
            }
            difference / (ulp(dtype, *y) + spread)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_in_the_last_place_is_the_distance_of_neighbours() {
        for (dtype, x, unit) in [
            (Precision::F32, 1.0, f64::from(f32::EPSILON)),
            (Precision::F16, 2047.0, 1.0),
            (Precision::F16, -2048.0, 2.0),
            (Precision::F16, 0.0, 2f64.powi(-24)),
            (Precision::BF16, 0.75, 2f64.powi(-8)),
        ] {
            assert_eq!(ulp(dtype, x), unit, "{dtype} {x}");
        }
    }

    #[test]
    fn a_distance_counts_units_and_what_is_not_finite() {
        let far = |x, y, dtype| distances(&[x], &[y], &[], 0.0, dtype).next().unwrap();
        assert_eq!(far(1.0 + 2f64.powi(-9), 1.0, Precision::F16), 2.0);
        assert_eq!(far(1e-39, 0.0, Precision::F32), 0.0);
        assert_eq!(far(f64::INFINITY, 1e5, Precision::F16), 0.0);
        assert_eq!(far(65504.0, 1e5, Precision::F16), ((1e5 - 65504.0) / 64.0));
        assert_eq!(far(f64::INFINITY, 65500.0, Precision::F16), 0.0);
        assert_eq!(far(f64::INFINITY, 6e4, Precision::F16), f64::INFINITY);
        assert_eq!(far(f64::NAN, f64::NAN, Precision::F16), 0.0);
        assert_eq!(far(0.0, f64::NAN, Precision::F16), f64::INFINITY);
        assert_eq!(
            far(f64::NEG_INFINITY, f64::INFINITY, Precision::F32),
            f64::INFINITY
        );
    }

    #[test]
    fn values_that_are_exact_in_low_precision_are_measured_in_it() {
        let low = Some(Precision::BF16);
        assert_eq!(
            rounded_to(&[1.0, 0.5, f64::NAN], low, Precision::F32),
            Precision::BF16
        );
        assert_eq!(rounded_to(&[1.0, 0.1], low, Precision::F32), Precision::F32);
        assert_eq!(rounded_to(&[1.0], None, Precision::F32), Precision::F32);
    }
}
