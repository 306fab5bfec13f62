//! Cast classes: what happens to an op's float operands.

use std::{fmt, str::FromStr};

/// What happens to the float operands and the result of an op.
///
/// Operands of different dtypes are promoted to their [join](crate::Dtype::join) whatever the class, because Burn's
/// backends do not compute on mixed dtypes. An op with an F64 operand stays in F64 under every class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Operands are cast to the compute dtype; so is the result.
    Low,
    /// Operands are cast to F32; the result is F32.
    Full,
    /// Computed in F32; the result is cast back to the operands' dtype.
    Internal,
    /// Operands are cast to the widest dtype among them; so is the result.
    Widest,
    /// Operands stay as they are; the result has their dtype.
    Keep,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] = [
        Self::Low,
        Self::Full,
        Self::Internal,
        Self::Widest,
        Self::Keep,
    ];

    /// The name used in `amp.toml`: `low`, `full`, `internal`, `widest`, `keep`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Full => "full",
            Self::Internal => "internal",
            Self::Widest => "widest",
            Self::Keep => "keep",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Class {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|c| c.name() == name).ok_or(())
    }
}
