//! The end of a run whose gradients overflow at every loss scale.

use std::{fmt, sync::Arc};

use burn_amp_core::overflow::{Cause, NotFinite};

use super::skip::{Readable, Skip};
use crate::warn::See;

/// The reason why training is given up: the gradients overflowed again and again at the smallest loss scale.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    /// The last skipped step.
    pub(crate) skip: Skip,
    /// The overflowed steps in a row.
    pub(crate) in_a_row: u32,
    /// The limit that they have reached.
    pub(crate) limit: Limit,
    /// The number of backward passes made since, while the outcome of the last one was on the device.
    pub(crate) later: usize,
    /// The op with which an overflow of the row began, if it was found.
    pub(crate) cause: Option<Arc<Cause>>,
}

/// A limit of overflows in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// `loss_scale.patience`; the number is that of the overflows at the smallest scale.
    AtMin(u32),
    /// `loss_scale.max_skips`.
    InARow,
}

impl GivenUp {
    /// Ends the run.
    ///
    /// # Panics
    ///
    /// Always: `backward()` returns no `Result`, and going on would skip every step in silence.
    pub(crate) fn panic(&self) -> ! {
        panic!("{self} {}", See("training-is-given-up"))
    }
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            skip,
            in_a_row,
            limit,
            later,
            cause,
        } = self;
        let steps = Counted(*in_a_row as usize, "step");
        write!(f, "loss scale: gradients overflowed in {steps} in a row, ")?;
        match limit {
            Limit::AtMin(at_min) => write!(
                f,
                "{at_min} of them at the smallest scale {}, so no scale prevents it. ",
                Readable(skip.scale)
            )?,
            Limit::InARow => {
                f.write_str("as many as `loss_scale.max_skips` allows. ")?;
            }
        }
        write!(f, "The last: {skip}. ")?;
        if *later > 0 {
            write!(
                f,
                "It was {} before the latest: with `loss_scale.sync = false` the host learns of it late. ",
                Counted(*later, "step")
            )?;
        }
        match (cause, &skip.cause) {
            (Some(cause), None) => write!(f, "An earlier one was first in {cause}. ")?,
            (None, None) => {
                f.write_str("`overflow.locate = \"on_skip\"` says with which op it begins. ")?
            }
            (_, Some(_)) => {}
        }
        let cause = skip.cause.as_ref().or(cause.as_ref());
        write!(f, "{}", Remedy::of(cause.map(AsRef::as_ref)))?;
        match limit {
            Limit::AtMin(_) => f.write_str(
                ". `loss_scale.min` is the smallest scale, `loss_scale.patience` the number of overflows there after which \
                 training is given up",
            ),
            Limit::InARow => Ok(()),
        }
    }
}

/// What may help against overflows at every scale. BF16 has the range of F32, and helps where F32 would.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    /// The cause is not known.
    Look,
    /// The values are beyond the range of F16.
    Range,
    /// They were not finite before any op.
    Data,
    /// They are not finite in F32 either.
    Values,
}

impl Remedy {
    fn of(cause: Option<&Cause>) -> Self {
        match cause {
            None => Self::Look,
            Some(cause) if cause.is_of_range() => Self::Range,
            Some(cause) if cause.what == NotFinite::Operand => Self::Data,
            Some(_) => Self::Values,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look => {
                "Look for inf or NaN in the data and in the loss. If `compute = \"f32\"` has none, compute what overflows \
                 in f32, with `burn_amp::full_precision(|| ..)` or a class under `[ops]`; or set `compute = \"bf16\"`, \
                 which has the range of f32"
            }
            Self::Range => {
                "Compute it in f32, with `burn_amp::full_precision(|| ..)` or a class under `[ops]`; or set `compute = \
                 \"bf16\"`, which has the range of f32"
            }
            Self::Data => {
                "No op had made these values, so they are not finite in any dtype: look at the data, the constants and the \
                 parameters"
            }
            Self::Values => {
                "These values are not finite in f32 either: bound the operands of this op, or lower the learning rate"
            }
        })
    }
}

/// A number of things: `1 step`, `3 steps`.
struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}
