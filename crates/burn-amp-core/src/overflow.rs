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
mod tests {
    use super::*;

    fn cause(what: NotFinite, min: f64, max: f64) -> Cause {
        Cause {
            what,
            op: "float_matmul".into(),
            site: Some(Site {
                file: "src/model.rs".into(),
                line: 31,
                function: "model::forward".into(),
            }),
            computed_in: Precision::F16,
            operands: vec![Operand {
                parameter: Some("head.weight".into()),
                dtype: Precision::F32,
                shape: vec![2, 2],
                range: Range::of([min, max, 0.0, 1.0]),
                made: None,
            }],
            values: Range::of([1.0, f64::INFINITY, f64::NAN, -2.5]),
        }
    }

    #[test]
    fn a_range_counts_what_is_not_finite() {
        let range = Range::of([1.0, f64::NEG_INFINITY, f64::NAN, -2.5]);
        assert_eq!((range.min, range.max), (-2.5, 1.0));
        assert_eq!((range.infinite, range.nan, range.elements), (1, 1, 4));
        assert!(!range.is_finite());
        assert!(Range::of([]).is_finite());
        let masked = |values: &[f64]| Range::of(values.iter().copied()).is_masked();
        assert!(masked(&[1.0, f64::NEG_INFINITY]));
        assert!(!masked(&[1.0]) && !masked(&[f64::NEG_INFINITY, f64::INFINITY]));
        assert!(!masked(&[f64::NEG_INFINITY, f64::NAN]));
        assert_eq!(range.to_string(), "-2.5 to 1, 1 of 4 inf, 1 of 4 NaN");
        assert_eq!(
            Range::of([f64::NAN]).to_string(),
            "no finite value, 1 of 1 NaN"
        );
        assert_eq!(
            Range::of([1e-7, 65504.0, 1e9]).to_string(),
            "1.000e-7 to 1.000e9"
        );
        assert!(Range::of([65520.0]).overflows_in(Precision::F16));
        assert!(!Range::of([65519.0]).overflows_in(Precision::F16));
    }

    #[test]
    fn only_what_f16_cannot_hold_is_of_range() {
        let is_of_range = |change: fn(&mut Cause)| {
            let mut cause = cause(NotFinite::Result, -3.0, 300.0);
            change(&mut cause);
            cause.is_of_range()
        };
        let in_f32 = |cause: &mut Cause| cause.computed_in = Precision::F32;
        let of_f16 = |cause: &mut Cause| {
            cause.computed_in = Precision::F32;
            cause.what = NotFinite::Sum;
            cause.operands[0].dtype = Precision::F16;
        };
        let received = |cause: &mut Cause| {
            cause.what = NotFinite::Gradient {
                received: Range::default(),
            };
        };
        assert!(is_of_range(|_| ()));
        assert!(is_of_range(of_f16) && is_of_range(received));
        assert!(!is_of_range(in_f32));
        assert!(!is_of_range(|cause| cause.what = NotFinite::Operand));
        assert!(!is_of_range(|cause| cause.values = Range::of([f64::NAN])));
    }

    #[test]
    fn a_cause_is_told_by_what_was_not_finite_first() {
        let told = |what, min, max| cause(what, min, max).to_string();
        assert_eq!(
            told(NotFinite::Result, -3.0, 300.0),
            "the result of `float_matmul`, computed in f16, at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; \
             operand 0: head.weight f32 [2, 2] -3 to 300"
        );
        assert_eq!(
            told(NotFinite::Result, -3.0, 1e6),
            "the cast of an operand of `float_matmul` to f16 at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; \
             operand 0: head.weight f32 [2, 2] -3 to 1.000e6, beyond the range of f16"
        );
        let mut made = cause(NotFinite::Result, -3.0, 1e6);
        made.operands[0].made = Some(Made {
            op: "float_mul_scalar".into(),
            site: made.site.clone().map(|site| Site { line: 12, ..site }),
        });
        let made = made.to_string();
        assert!(
            made.ends_with(
                "beyond the range of f16, made by `float_mul_scalar` at src/model.rs:12"
            ),
            "{made}"
        );
        let received = Range::of([256.0]);
        assert_eq!(
            told(NotFinite::Gradient { received }, -3.0, 300.0),
            "the backward pass of `float_matmul` at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; the gradient of \
             its result: 256 to 256; operand 0: head.weight f32 [2, 2] -3 to 300"
        );
        assert_eq!(
            cause(NotFinite::Sum, 0.0, 1.0)
                .parameters()
                .collect::<Vec<_>>(),
            ["head.weight"]
        );
    }
}
