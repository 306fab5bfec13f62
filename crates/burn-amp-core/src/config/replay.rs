//! The `[replay]` table.

/// The step that a run writes to a file, for `burn-amp replay`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// The file; empty for none.
    pub output: String,
    /// The number of the backward pass on a device, counted from 1, whose step is written; 0 for a step that overflows, where
    /// overflows are looked for.
    pub step: u32,
    /// Whether the values of tensors are written, and not only their dtypes, shapes and hashes.
    pub with_values: bool,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            output: String::new(),
            step: 0,
            with_values: true,
        }
    }
}
