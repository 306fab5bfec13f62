//! The end of a run whose gradients overflow at every loss scale.

use std::fmt;

use super::skip::{Readable, Skip};

/// The reason why training is given up: the gradients overflowed again and again at the smallest loss scale.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    /// The last skipped step.
    pub(crate) skip: Skip,
    /// The overflowed steps in a row.
    pub(crate) in_a_row: u32,
    /// Those of them at the smallest scale.
    pub(crate) at_min: u32,
    /// The number of backward passes made since, while the outcome of the last one was on the device.
    pub(crate) later: usize,
}

impl GivenUp {
    /// Ends the run.
    ///
    /// # Panics
    ///
    /// Always: `backward()` returns no `Result`, and going on would skip every step in silence.
    pub(crate) fn panic(&self) -> ! {
        panic!("{self}")
    }
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            skip,
            in_a_row,
            at_min,
            later,
        } = self;
        write!(
            f,
            "loss scale: gradients overflowed in {} in a row, {at_min} of them at the smallest scale {}, so no scale \
             prevents it. The last: {skip}. ",
            Count(*in_a_row as usize, "step"),
            Readable(skip.scale)
        )?;
        if *later > 0 {
            write!(
                f,
                "It was {} before the latest: with `loss_scale.sync = false` the host learns of it late. ",
                Count(*later, "step")
            )?;
        }
        f.write_str(
            "Look for inf or NaN in the data and in the loss; compute what overflows in f32, with \
             `burn_amp::full_precision(|| ..)` or a class under `[ops]`; or set `compute = \"bf16\"`, which has the range \
             of f32. `loss_scale.min` is the smallest scale, `loss_scale.patience` the number of overflows there after \
             which training is given up",
        )
    }
}

/// A number of things: `1 step`, `3 steps`.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}
