//! The limits of programs.

/// The limits of programs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most elements of a tensor.
    pub elements: usize,
    /// The most steps.
    pub steps: usize,
    /// Whether there may be tensors in BF16 and in F64, and random numbers, which not every backend has alike.
    pub everywhere: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            elements: 6000,
            steps: 24,
            everywhere: !cfg!(feature = "cubecl"),
        }
    }
}
