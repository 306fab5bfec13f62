//! Means, percentiles and spreads; `None` for no values.

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The percentile, interpolated linearly between neighbours.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_unstable_by(f64::total_cmp);
    let place = ordered.len().checked_sub(1)? as f64 * percent / 100.0;
    let [low, high] = [place.floor(), place.ceil()].map(|place| ordered[place as usize]);
    Some(low + (high - low) * place.fract())
}

/// The smallest and the largest value.
pub fn extremes(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let pairs = values.into_iter().map(|value| (value, value));
    pairs.reduce(|(least, most), (value, _)| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_between_its_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let percentiles = [0.0, 10.0, 50.0, 90.0, 100.0].map(|at| percentile(&values, at));
        for (found, expected) in percentiles.into_iter().zip([1.0, 1.3, 2.5, 3.7, 4.0]) {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{percentiles:?}");
        }
        assert_eq!(percentile(&[7.0], 10.0), Some(7.0));
    }

    #[test]
    fn no_values_have_no_statistics() {
        assert_eq!((mean(&[]), percentile(&[], 50.0)), (None, None));
        assert_eq!(extremes([]), None);
        assert_eq!(mean(&[1.0, 2.0]), Some(1.5));
        assert_eq!(extremes([2.0, -1.0, 3.0]), Some((-1.0, 3.0)));
    }
}
