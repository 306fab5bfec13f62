//! Percentiles.

/// The percentile of at least one value, interpolated linearly between neighbours.
///
/// # Panics
///
/// If there is no value.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut ordered = values.to_vec();
    ordered.sort_unstable_by(f64::total_cmp);
    let place = (ordered.len() - 1) as f64 * percent / 100.0;
    let (low, high) = (
        ordered[place.floor() as usize],
        ordered[place.ceil() as usize],
    );
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_between_its_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let percentiles = [0.0, 10.0, 50.0, 90.0, 100.0].map(|at| percentile(&values, at));
        let expected = [1.0, 1.3, 2.5, 3.7, 4.0];
        for (found, expected) in percentiles.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{percentiles:?}");
        }
    }

    #[test]
    fn one_value_is_all_percentiles() {
        assert_eq!([0.0, 50.0, 90.0].map(|at| percentile(&[7.0], at)), [7.0; 3]);
    }
}
