//! Where a value overflowed: the first op of a step that made inf or NaN.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Precision, named::named, report::Site};

named! {
    /// When the op is looked for that made the first inf or NaN of a step.
    Locate = Off {
        /// Never.
        Off = "off",
        /// In the step after a skipped one; if it overflows too, its report says where.
        OnSkip = "on_skip",
        /// In every step: each result and each gradient is read to the host.
        Always = "always",
    }
}

/// The origin of an overflow: the first op of a step that made inf or NaN of finite operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// What was not finite.
    pub what: NotFinite,
    /// The name of the op, for example `float_exp`; `custom` for an op that is not in the table.
    pub op: String,
    /// The line of the program that called the op.
    pub site: Option<Site>,
    /// The dtype in which the op computed.
    pub computed_in: Precision,
    /// The float operands as they were stored before the call.
    pub operands: Vec<Operand>,
    /// The values that were not finite, with those beside them.
    pub values: Range,
}

/// What was not finite where an overflow began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFinite {
    /// The result of the op, in the forward pass.
    Result,
    /// An operand, which no op of the step had made: the data, a parameter or a constant.
    Operand,
    /// The gradient of an operand, which the op's backward pass made of a finite gradient of its result.
    Gradient {
        /// The range of the gradient of the result.
        received: Range,
    },
    /// The gradient of the result: a sum over the ops that read the result.
    Sum,
}

/// A float operand of an op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// The path of the parameter that it is, if it is one and its name is known.
    pub parameter: Option<String>,
    /// The dtype in which it was stored.
    pub dtype: Precision,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values.
    pub range: Range,
    /// The op of the same step that made it, if one did.
    #[serde(default)]
    pub made: Option<Made>,
}

/// The op that made a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The name of the op; `custom` for an op that is not in the table.
    pub op: String,
    /// The line of the program that called it.
    pub site: Option<Site>,
}

/// The range of a tensor's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The smallest finite value; 0 if there is none.
    pub min: f64,
    /// The largest finite value; 0 if there is none.
    pub max: f64,
    /// The number of values that are inf or -inf.
    pub infinite: u64,
    /// The number of values that are -inf.
    #[serde(default)]
    pub negative: u64,
    /// The number of values that are NaN.
    pub nan: u64,
    /// The number of values.
    pub elements: u64,
}

impl Range {
    /// The range of some values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut range = Self::default();
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for x in values {
            range.elements += 1;
            if x.is_nan() {
                range.nan += 1;
            } else if x.is_infinite() {
                range.infinite += 1;
                range.negative += u64::from(x < 0.0);
            } else {
                (min, max) = (min.min(x), max.max(x));
            }
        }
        if min <= max {
            (range.min, range.max) = (min, max);
        }
        range
    }

    /// Whether all values are finite.
    pub fn is_finite(&self) -> bool {
        self.infinite == 0 && self.nan == 0
    }

    /// Whether the values that are not finite are all -inf, as those of a mask are.
    pub fn is_masked(&self) -> bool {
        self.nan == 0 && self.infinite > 0 && self.infinite == self.negative
    }

    /// Whether a finite value is inf after a cast to `dtype`.
    pub fn overflows_in(&self, dtype: Precision) -> bool {
        let is_lost = |x: f64| dtype.round(x).is_infinite();
        is_lost(self.min) || is_lost(self.max)
    }
}

impl Cause {
    /// The paths of the parameters among the operands, as far as they are known.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let operands = self.operands.iter();
        operands.filter_map(|operand| operand.parameter.as_deref())
    }

    /// Whether the values are beyond the range of F16 alone, so that BF16 or F32 may hold them.
    ///
    /// An operand that no op had made, and what an op computed in F32 of operands in F32, is as it is in every dtype. NaN
    /// without an inf is no matter of range.
    pub fn is_of_range(&self) -> bool {
        let is_f16 = |dtype: Precision| dtype == Precision::F16;
        let is_in_f16 = match &self.what {
            NotFinite::Operand => false,
            NotFinite::Result => is_f16(self.computed_in),
            // A gradient is stored as the operand is.
            NotFinite::Gradient { .. } | NotFinite::Sum => {
                is_f16(self.computed_in) || self.operands.iter().any(|x| is_f16(x.dtype))
            }
        };
        is_in_f16 && (self.values.infinite > 0 || self.overflows_in_its_cast().is_some())
    }

    /// The operands that are finite as they were stored, and inf in the dtype in which the op computed.
    fn overflows_in_its_cast(&self) -> Option<usize> {
        let overflows = |operand: &Operand| operand.range.overflows_in(self.computed_in);
        self.operands.iter().position(overflows)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            op,
            site,
            computed_in,
            operands,
            values,
        } = self;
        let cast = self.overflows_in_its_cast();
        match what {
            NotFinite::Result if cast.is_some() => {
                write!(f, "the cast of an operand of `{op}` to {computed_in}")?;
            }
            NotFinite::Result => write!(f, "the result of `{op}`, computed in {computed_in},")?,
            NotFinite::Operand => write!(f, "an operand of `{op}`, which no op had made,")?,
            NotFinite::Gradient { .. } => write!(f, "the backward pass of `{op}`")?,
            NotFinite::Sum => write!(f, "the sum of the gradients of the result of `{op}`")?,
        }
        match site {
            Some(site) => write!(f, " at {site}")?,
            None => f.write_str(" at an unknown line")?,
        }
        write!(f, ": {values}")?;
        if let NotFinite::Gradient { received } = what {
            write!(f, "; the gradient of its result: {received}")?;
        }
        for (at, operand) in operands.iter().enumerate() {
            write!(f, "; operand {at}: {operand}")?;
            if let (NotFinite::Result, Some(cast)) = (what, cast)
                && cast == at
            {
                write!(f, ", beyond the range of {computed_in}")?;
                if let Some(made) = &operand.made {
                    write!(f, ", made by {made}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, site } = self;
        write!(f, "`{op}`")?;
        match site {
            Some(site) => write!(f, " at {site}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            parameter,
            dtype,
            shape,
            range,
            made: _,
        } = self;
        if let Some(parameter) = parameter {
            write!(f, "{parameter} ")?;
        }
        write!(f, "{dtype} {shape:?} {range}")
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            min,
            max,
            infinite,
            nan,
            elements,
            negative: _,
        } = self;
        if infinite + nan == *elements {
            f.write_str("no finite value")?;
        } else {
            write!(f, "{} to {}", Digits(*min), Digits(*max))?;
        }
        for (count, what) in [(infinite, "inf"), (nan, "NaN")] {
            if *count > 0 {
                write!(f, ", {count} of {elements} {what}")?;
            }
        }
        Ok(())
    }
}

/// A number with four digits.
struct Digits(f64);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(x) = *self;
        match x.abs() {
            0.0 => f.write_str("0"),
            1e-3..1e5 => write!(f, "{}", (x * 1e3).round() / 1e3),
            _ => write!(f, "{x:.3e}"),
        }
    }
}

#[cfg(test)]
mod tests;
