//! The size of a model: full or tiny.

use std::{fmt, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The size in which the model is used.
    Full,
    /// Small enough to train on a CPU in seconds, with the same layers.
    Tiny,
}

impl Size {
    pub const ALL: [Self; 2] = [Self::Full, Self::Tiny];

    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Tiny => "tiny",
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("size: unknown `{0}`; allowed: full, tiny")]
pub struct UnknownSize(String);

impl FromStr for Size {
    type Err = UnknownSize;

    fn from_str(name: &str) -> Result<Self, UnknownSize> {
        let found = Self::ALL.into_iter().find(|size| size.name() == name);
        found.ok_or_else(|| UnknownSize(name.to_owned()))
    }
}
