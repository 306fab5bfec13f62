//! The `[gradients]` table.

use crate::NormGuard;

/// What becomes of finite gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradientsConfig {
    /// A step is skipped if its gradient norm exceeds this many times the median of recent norms; 0 never skips.
    pub max_norm_ratio: u32,
}

impl GradientsConfig {
    /// The rule by which steps are skipped, if there is one.
    pub fn guard(&self) -> Option<NormGuard> {
        let max_ratio = self.max_norm_ratio;
        (max_ratio > 0).then_some(NormGuard { max_ratio })
    }
}
