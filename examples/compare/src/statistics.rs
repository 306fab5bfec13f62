//! Means, medians, deviations; `None` of nothing.

pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The upper one of two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How far the largest and the smallest are apart.
pub fn spread(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let smallest = values.clone().reduce(f64::min)?;
    Some(values.reduce(f64::max)? - smallest)
}

/// The standard deviation of what the values are drawn from; `None` of one value, too.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_some_values_and_of_none() {
        let values = || [3.0, -1.0, 7.0].into_iter();
        assert_eq!(mean(values()), Some(3.0));
        assert_eq!(median(values()), Some(3.0));
        assert_eq!(spread(values()), Some(8.0));
        assert_eq!(deviation(&[3.0, -1.0, 7.0]), Some(4.0));
        assert_eq!(median([1.0, 2.0].into_iter()), Some(2.0));

        let nothing = || [].into_iter();
        assert_eq!(
            (mean(nothing()), median(nothing()), spread(nothing())),
            (None, None, None)
        );
        assert_eq!((deviation(&[]), deviation(&[1.0])), (None, None));
    }
}
