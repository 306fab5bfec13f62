//! The shadow comparison: how far each op is from the same op in F32 on the same operands.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::{Precision, report::Site};

/// How far the ops of some steps were from F32, each on the operands that it had.
///
/// So an error is one that the op makes itself; errors that its operands have brought along are not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowReport {
    /// The ops by place, in the order of their first calls.
    pub ops: Vec<Shadowed>,
}

/// The calls of an op at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shadowed {
    /// The name of the op.
    pub op: String,
    /// The line of the program that called it.
    pub site: Option<Site>,
    /// The dtype in which the result was stored.
    pub stored: Precision,
    /// The number of calls.
    pub calls: u64,
    /// The largest error of a call, see [`relative_error`].
    pub worst: f64,
    /// The sum of the errors of all calls.
    pub sum: f64,
}

impl Shadowed {
    /// The error of a call on average.
    pub fn mean(&self) -> f64 {
        self.sum / self.calls as f64
    }
}

/// The L2 norm of the difference, relative to that of the expected values.
///
/// * 0 if the values are the same ones, inf and NaN included.
/// * inf if a value is finite in one of them only, or if all expected values are 0 and others are not.
///
/// # Panics
///
/// Panics if the numbers of values differ.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "one op on the same operands");
    let (mut difference, mut norm) = (0.0, 0.0);
    for (x, y) in found.iter().zip(expected) {
        match (x.is_finite(), y.is_finite()) {
            (true, true) => {
                difference += (x - y) * (x - y);
                norm += y * y;
            }
            (false, false) => {}
            (true, false) | (false, true) => return f64::INFINITY,
        }
    }
    match difference == 0.0 {
        true => 0.0,
        false => (difference / norm).sqrt(),
    }
}

impl ShadowReport {
    /// The first op, in the order of the first calls, with an error above `tolerance`.
    pub fn first_above(&self, tolerance: f64) -> Option<&Shadowed> {
        self.ops.iter().find(|op| op.worst > tolerance)
    }

    /// Reads a report.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is no report of a shadow comparison.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Writes the report as JSON that [`from_json`](Self::from_json) reads.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers")
    }

    /// Adds a call. An infinite error is taken for the largest number, which JSON has.
    pub fn add(&mut self, op: &str, site: Option<Site>, stored: Precision, error: f64) {
        let error = error.min(f64::MAX);
        let is_like =
            |other: &&mut Shadowed| other.op == op && other.site == site && other.stored == stored;
        match self.ops.iter_mut().find(is_like) {
            Some(shadowed) => {
                shadowed.calls += 1;
                shadowed.worst = shadowed.worst.max(error);
                shadowed.sum = (shadowed.sum + error).min(f64::MAX);
            }
            None => self.ops.push(Shadowed {
                op: op.into(),
                site,
                stored,
                calls: 1,
                worst: error,
                sum: error,
            }),
        }
    }
}

impl fmt::Display for ShadowReport {
    /// A table, the largest errors first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ops: Vec<_> = self.ops.iter().collect();
        ops.sort_by(|a, b| {
            let errors = b.worst.partial_cmp(&a.worst);
            errors.unwrap_or(Ordering::Equal)
        });
        let width = ops.iter().map(|op| op.op.len()).max().unwrap_or(2);
        writeln!(
            f,
            "{:width$}  stored  {:>6}  {:>9}  {:>9}  at",
            "op", "calls", "worst", "mean"
        )?;
        for shadowed in ops {
            let Shadowed {
                op,
                site,
                stored,
                calls,
                worst,
                ..
            } = shadowed;
            let mean = shadowed.mean();
            let site = site.as_ref().map_or("?".into(), Site::to_string);
            writeln!(
                f,
                "{op:width$}  {:6}  {calls:6}  {worst:9.2e}  {mean:9.2e}  {site}",
                stored.name()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_relative_to_the_norm_of_what_is_expected() {
        assert_eq!(relative_error(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(relative_error(&[3.5, 4.0], &[3.0, 4.0]), 0.1);
        assert_eq!(relative_error(&[0.0], &[0.0]), 0.0);
        assert_eq!(relative_error(&[1e-9], &[0.0]), f64::INFINITY);
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(relative_error(&[inf, nan, 1.0], &[inf, nan, 1.0]), 0.0);
        assert_eq!(relative_error(&[inf, 1.0], &[7e4, 1.0]), inf);
    }

    #[test]
    fn an_infinite_error_survives_json() {
        let mut report = ShadowReport::default();
        for _ in 0..2 {
            report.add("float_exp", None, Precision::F16, f64::INFINITY);
        }
        assert!(report.first_above(1e300).is_some());
        assert_eq!(ShadowReport::from_json(&report.to_json()).unwrap(), report);
    }

    #[test]
    fn the_first_op_above_a_tolerance_is_the_one_that_was_called_first() {
        let mut report = ShadowReport::default();
        let site = |line| {
            Some(Site {
                file: "src/model.rs".into(),
                line,
                function: "model::forward".into(),
            })
        };
        for (op, line, error) in [
            ("linear", 1, 1e-3),
            ("float_exp", 2, 0.2),
            ("linear", 1, 3e-3),
            ("softmax", 3, 0.4),
        ] {
            report.add(op, site(line), Precision::BF16, error);
        }
        assert_eq!(report.first_above(0.1).unwrap().op, "float_exp");
        assert_eq!(report.first_above(0.5), None);
        let json = report.to_json();
        assert_eq!(ShadowReport::from_json(&json).unwrap(), report);
        let linear = &report.ops[0];
        assert_eq!((linear.calls, linear.worst, linear.mean()), (2, 3e-3, 2e-3));
        assert_eq!(
            report.to_string(),
            "op         stored   calls      worst       mean  at\n\
             softmax    bf16         1    4.00e-1    4.00e-1  src/model.rs:3\n\
             float_exp  bf16         1    2.00e-1    2.00e-1  src/model.rs:2\n\
             linear     bf16         2    3.00e-3    2.00e-3  src/model.rs:1\n"
        );
    }
}
