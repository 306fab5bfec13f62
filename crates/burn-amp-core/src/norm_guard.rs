//! A guard against steps whose gradients are outliers: one pure function of the norms so far.

use std::collections::VecDeque;

/// The rule: a norm is an outlier if it is more than `max_ratio` times the median of the norms before it.
///
/// Loss scaling skips steps that are not finite. A batch of broken data has gradients that are finite and much larger
/// than those of any other batch, and Adam's second moment remembers them for a thousand steps.
///
/// ```
/// use burn_amp_core::{NormGuard, RecentNorms};
///
/// let guard = NormGuard { max_ratio: 10 };
/// let mut norms = RecentNorms::default();
/// for _ in 0..NormGuard::FIRST {
///     assert!(!guard.is_outlier(&norms, 1.0));
///     norms = norms.and(1.0);
/// }
/// assert!(guard.is_outlier(&norms, 10.5));
/// assert!(!guard.is_outlier(&norms, 9.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormGuard {
    /// How many times the median a norm may be.
    pub max_ratio: u32,
}

/// The norms of the latest steps, skipped ones too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentNorms(VecDeque<f32>);

impl NormGuard {
    /// The number of norms from which on there are outliers: a median of fewer says little, and the first gradients of a
    /// training run are larger than later ones.
    pub const FIRST: usize = 16;

    /// Whether the step with gradients of this norm is to be skipped. A norm that is inf or NaN is an outlier always.
    pub fn is_outlier(self, recent: &RecentNorms, norm: f32) -> bool {
        if !norm.is_finite() {
            return true;
        }
        let median = recent.median().filter(|_| recent.0.len() >= Self::FIRST);
        median.is_some_and(|median| norm > median * self.max_ratio as f32)
    }
}

impl RecentNorms {
    /// The number of norms that are remembered.
    pub const LAST: usize = 64;

    /// These norms and one more, that of a skipped step too: if gradients grow for good, the median follows after half as
    /// many steps as are remembered, and no guard skips forever. A norm of 0, inf or NaN is left out.
    #[must_use]
    pub fn and(mut self, norm: f32) -> Self {
        if norm.is_finite() && norm > 0.0 {
            if self.0.len() == Self::LAST {
                self.0.pop_front();
            }
            self.0.push_back(norm);
        }
        self
    }

    /// The median, the upper one of two; `None` if no norm is known.
    pub fn median(&self) -> Option<f32> {
        let mut sorted: Vec<_> = self.0.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(norms: impl IntoIterator<Item = f32>) -> RecentNorms {
        norms
            .into_iter()
            .fold(RecentNorms::default(), RecentNorms::and)
    }

    const GUARD: NormGuard = NormGuard { max_ratio: 4 };

    #[test]
    fn a_norm_is_an_outlier_beyond_the_ratio_to_the_median() {
        let norms = of((0..40).map(|at| if at % 10 == 9 { 100.0 } else { 2.0 }));
        assert_eq!(norms.median(), Some(2.0));
        assert!(!GUARD.is_outlier(&norms, 8.0));
        assert!(GUARD.is_outlier(&norms, 8.001));
    }

    #[test]
    fn the_first_norms_are_no_outliers_unless_they_are_not_finite() {
        let norms = of([1.0; NormGuard::FIRST - 1]);
        assert!(!GUARD.is_outlier(&norms, 1e9));
        assert!(GUARD.is_outlier(&norms, f32::INFINITY));
        assert!(GUARD.is_outlier(&RecentNorms::default(), f32::NAN));
        assert!(GUARD.is_outlier(&norms.and(1.0), 1e9));
    }

    #[test]
    fn norms_that_say_nothing_are_not_remembered() {
        let norms = of([1.0, 0.0, f32::NAN, f32::INFINITY]);
        assert_eq!(norms, of([1.0]));
        assert_eq!(RecentNorms::default().median(), None);
    }

    #[test]
    fn gradients_that_grow_for_good_are_skipped_for_half_of_the_memory_at_most() {
        let mut norms = of([1.0; RecentNorms::LAST]);
        let mut skipped = 0;
        for _ in 0..RecentNorms::LAST {
            skipped += usize::from(GUARD.is_outlier(&norms, 100.0));
            norms = norms.and(100.0);
        }
        assert_eq!(skipped, RecentNorms::LAST / 2);
    }

    /// A norm from a thousandth up to `most`. It is drawn as an integer: proptest 1.12 now and then fails at a range of F32.
    fn norm(most: u32) -> impl Strategy<Value = f32> {
        (1..most * 1000).prop_map(|thousandths| thousandths as f32 / 1e3)
    }

    proptest! {
        #[test]
        fn the_scale_of_the_gradients_does_not_matter(
            norms in prop::collection::vec(norm(1_000), 0..100),
            norm in norm(10_000),
            exponent in -20i32..20,
        ) {
            let factor = 2f32.powi(exponent);
            let scaled = of(norms.iter().map(|norm| norm * factor));
            prop_assert_eq!(
                GUARD.is_outlier(&of(norms), norm),
                GUARD.is_outlier(&scaled, norm * factor)
            );
        }

        #[test]
        fn a_norm_below_an_outlier_may_be_none_but_never_the_other_way_round(
            norms in prop::collection::vec(norm(1_000), 0..100),
            norm in norm(10_000),
        ) {
            let norms = of(norms);
            prop_assert!(!GUARD.is_outlier(&norms, norm) || GUARD.is_outlier(&norms, norm * 2.0));
        }
    }
}
