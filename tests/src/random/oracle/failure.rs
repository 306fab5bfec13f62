//! How a program can be wrong.

use std::fmt;

use crate::random::bound::Off;

/// What differs from what it should be.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A run under a policy panicked.
    Panics {
        policy: &'static str,
        message: String,
    },
    /// Preset `o0` differs from plain Burn.
    NotPlain { name: String },
    /// Results in low precision are off by more than casts by hand explain.
    Off { policy: &'static str, off: Vec<Off> },
    /// A run reads other results than that in F64, such as a gradient that is missing.
    OtherResults { policy: &'static str, name: String },
    /// Gradients overflow at every loss scale, and those of casts by hand do not.
    Overflows { policy: &'static str },
    /// A second run beside another backward pass computes other bits.
    NotTheSame { policy: &'static str, name: String },
    /// A call by itself differs from the exact values by more than its dtype allows.
    Apart { policy: &'static str, text: String },
}

impl Failure {
    /// The kind of failure and its policy: what a smaller program has to share.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Panics { policy, .. } => ("panics", policy),
            Self::NotPlain { .. } => ("not plain", "o0"),
            Self::Off { policy, .. } => ("off", policy),
            Self::OtherResults { policy, .. } => ("other results", policy),
            Self::Overflows { policy } => ("overflows", policy),
            Self::NotTheSame { policy, .. } => ("not the same", policy),
            Self::Apart { policy, .. } => ("apart", policy),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panics { policy, message } => write!(f, "{policy}: panics: {message}"),
            Self::OtherResults { policy, name } => {
                write!(f, "{policy}: {name} is missing, new, or of another shape")
            }
            Self::Overflows { policy } => {
                write!(
                    f,
                    "{policy}: the gradients overflow at every loss scale, and those of casts by hand do not"
                )
            }
            Self::Apart { policy, text } => write!(f, "{policy}: {text}"),
            Self::NotPlain { name } => write!(f, "o0: {name} differs from plain Burn"),
            Self::NotTheSame { policy, name } => {
                write!(
                    f,
                    "{policy}: {name} has other bits when the program runs again beside another backward pass"
                )
            }
            Self::Off { policy, off } => {
                for Off {
                    name,
                    error,
                    bound,
                    size,
                } in off.iter().take(4)
                {
                    let percent = 100.0 * error / size;
                    write!(
                        f,
                        "{policy}: {name} is off by {error:.3e}, {percent:.2} % of {size:.3e}; "
                    )?;
                    write!(f, "casts by hand allow {bound:.3e}; ")?;
                }
                Ok(())
            }
        }
    }
}
