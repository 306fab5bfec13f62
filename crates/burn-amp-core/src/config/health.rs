//! The `[health]` table.

/// How often the health of a run is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthConfig {
    /// The number of steps of an optimizer from one look to the next; 0 for none.
    pub every: u32,
}
