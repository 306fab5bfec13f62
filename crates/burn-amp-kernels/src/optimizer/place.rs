//! Which moment of a parameter.

/// Which moment of a parameter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The first, which has a sign.
    First,
    /// The second, or the largest second so far: of Adam, never negative.
    Other,
}

impl Place {
    /// The place of the moment with this index.
    pub fn at(index: usize) -> Self {
        match index {
            0 => Self::First,
            _ => Self::Other,
        }
    }
}
