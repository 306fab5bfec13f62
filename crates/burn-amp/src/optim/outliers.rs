//! Steps that are skipped because the norm of their gradients is an outlier (`gradients.max_norm_ratio`).

use burn_amp_core::{NormGuard, RecentNorms};

use burn_amp_decorator::warn::Warning;

/// The norms of an optimizer's latest steps, and the number of steps that were skipped by their norms.
///
/// No part of the optimizer's record: after a resume, outliers are told from the 16th step on again.
#[derive(Clone, Debug, Default)]
pub(super) struct Outliers {
    recent: RecentNorms,
    skipped: u64,
}

impl Outliers {
    /// The number of steps that were skipped.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether a step with gradients of this norm is skipped.
    pub(super) fn skips(&mut self, guard: NormGuard, norm: f32) -> bool {
        static FIRST: Warning = Warning::new("gradients-that-are-outliers");

        let recent = std::mem::take(&mut self.recent);
        let is_outlier = guard.is_outlier(&recent, norm);
        if is_outlier {
            self.skipped += 1;
            let message = || {
                let median = recent.median().unwrap_or_default();
                let ratio = guard.max_ratio;
                format!(
                    "a step was skipped: the norm of its gradients is {norm}, more than {ratio} times {median}, the \
                     median of the steps before it (`gradients.max_norm_ratio`)"
                )
            };
            tracing::info!("burn-amp: {}", message());
            FIRST.give(message);
        }
        self.recent = recent.and(norm);
        is_outlier
    }
}
