//! The time that one call may take.

use std::time::{Duration, Instant};

/// Wall-clock time from now on.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// `None` if there is no limit.
    end: Option<Instant>,
}

/// The budget ended before enough steps were timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of time")]
pub struct OutOfTime;

impl Budget {
    /// Starts the clock. `None` means no limit, and so does more than the clock can count.
    pub fn new(seconds: Option<f64>) -> Self {
        let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self {
            end: span.and_then(|span| Instant::now().checked_add(span)),
        }
    }

    /// Whether work that takes this long would still end in time.
    pub fn allows(&self, span: Duration) -> bool {
        let after = Instant::now().checked_add(span);
        self.end
            .is_none_or(|end| after.is_some_and(|after| after <= end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_what_ends_before_it_does() {
        let hour = Budget::new(Some(3600.0));
        assert!(hour.allows(Duration::from_secs(3500)));
        assert!(!hour.allows(Duration::from_secs(3601)));
        assert!(!hour.allows(Duration::MAX));
    }

    #[test]
    fn nothing_fits_into_no_time_and_everything_into_no_budget() {
        assert!(!Budget::new(Some(0.0)).allows(Duration::from_nanos(1)));
        for endless in [None, Some(f64::INFINITY), Some(1e300)] {
            assert!(Budget::new(endless).allows(Duration::MAX), "{endless:?}");
        }
    }
}
