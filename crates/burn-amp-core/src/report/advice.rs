//! What a report says to change.

use std::fmt;

use super::{Calls, Report, Site, Why};
use crate::{Op, Precision, named::named};

named! {
    /// A pattern that costs accuracy or speed in mixed precision.
    Lint {
        /// The loss of an F16 model is not scaled: small gradients are zeros in F16.
        Unscaled = "unscaled",
        /// A logarithm reads a softmax or a sigmoid, whose result in half precision is rounded; burn-amp computes it
        /// again in F32.
        LogOfRounded = "log_of_rounded",
        /// A mask is filled with a number that half precision does not have, so that the op and what follows run in
        /// F32.
        MaskConstant = "mask_constant",
        /// A sum of many numbers is computed in half precision, where it overflows or stops growing.
        LowReduction = "low_reduction",
        /// A tensor is cast after it was expanded: the cast makes all copies of its values.
        CastAfterExpand = "cast_after_expand",
    }
}

impl Lint {
    /// What to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Unscaled => "leave `loss_scale.mode` at \"auto\", or use `compute = \"bf16\"`",
            Self::LogOfRounded => {
                "call `log_softmax` or `log_sigmoid`, or a loss on logits, which computes both at once"
            }
            Self::MaskConstant => {
                "fill with `f32::NEG_INFINITY`, or with a number that the compute dtype has"
            }
            Self::CastAfterExpand => {
                "leave it to the op to broadcast, or cast before: `x.cast(dtype).expand(shape)`"
            }
            Self::LowReduction => "remove the op's class from `[ops]`: the default is `full`",
        }
    }
}

/// A lint that applies to a place of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The pattern.
    pub lint: Lint,
    /// The op; `None` if it concerns the whole run.
    pub op: Option<String>,
    /// The line of the program.
    pub site: Option<Site>,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lint, op, site } = self;
        if let Some(op) = op {
            write!(f, "`{op}`")?;
            if let Some(site) = site {
                write!(f, " at {site}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{} Remedy: {}", lint.meaning(), lint.remedy())
    }
}

impl Report {
    /// What the report says to change: each pattern once for each place.
    pub fn advice(&self) -> Vec<Advice> {
        let of_calls = self.calls.iter().filter_map(|calls| {
            Some(Advice {
                lint: lint(calls)?,
                op: Some(calls.op.clone()),
                site: calls.site.clone(),
            })
        });
        let mut advice: Vec<_> = of_calls.collect();
        if self.compute == Precision::F16 && !self.scales_loss {
            advice.insert(
                0,
                Advice {
                    lint: Lint::Unscaled,
                    op: None,
                    site: None,
                },
            );
        }
        advice.dedup();
        advice
    }
}

/// The pattern that calls have, if they have one.
fn lint(calls: &Calls) -> Option<Lint> {
    /// The sum of this many numbers of about 16 overflows in F16. In BF16 a sum of ones stops at 256.
    const MANY: usize = 4096;

    let op: Op = calls.op.parse().ok()?;
    let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let largest = calls.shapes.iter().map(elements).max().unwrap_or_default();
    match op {
        Op::float_log | Op::float_log1p if calls.reads_rounded => Some(Lint::LogOfRounded),
        Op::float_mask_fill if calls.why == Why::Scalar => Some(Lint::MaskConstant),
        Op::float_sum
        | Op::float_sum_dim
        | Op::float_mean
        | Op::float_mean_dim
        | Op::float_cumsum
            if calls.computed_in.is_low() && largest >= MANY =>
        {
            Some(Lint::LowReduction)
        }
        _ if calls.casts_expanded => Some(Lint::CastAfterExpand),
        _ => None,
    }
}
