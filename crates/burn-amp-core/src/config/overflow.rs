//! The `[overflow]` table.

use crate::overflow::Locate;

/// What is said about an overflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverflowConfig {
    /// When the op is looked for that made the first inf or NaN of a step.
    pub locate: Locate,
}
