//! Cast classes, which say what happens to an op's float operands.

use std::{fmt, str::FromStr};

/// The cast class of an op: the dtypes of its float operands and of its result.
///
/// Under every class, operands of different dtypes are promoted to their [join](crate::Dtype::join), because Burn's
/// backends do not compute on mixed dtypes, and an op with an F64 operand stays in F64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Operands are cast to the compute dtype, which the result has too.
    Low,
    /// Operands are cast to F32, which the result has too.
    Full,
    /// The op computes in F32, and its result is cast back to the operands' dtype.
    Internal,
    /// Operands are cast to the widest dtype among them, which the result has too.
    Widest,
    /// Operands stay as they are, and the result has their dtype.
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

    /// The name in `amp.toml`: `low`, `full`, `internal`, `widest`, `keep`.
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
