//! A report as sorted lines, for a test.

use std::{collections::BTreeSet, fmt};

use super::{
    Report,
    compare::{Count, counts},
    units::number,
};

const HEADER: &str = "\
# What ran in which precision: function, op, dtypes of operands -> of the computation -> of the result, calls per step,
# casts per step.
";

/// One line for each op at each function, sorted. Lines and shapes are left out, so that they may change.
pub(super) fn lines(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for (line, Count { calls, casts }) in counts(report) {
        text.push_str(&format!("{line}  x{}", number(calls)));
        if casts > 0.0 {
            text.push_str(&format!("  casts {}", number(casts)));
        }
        text.push('\n');
    }
    text
}

/// What ran in which precision, as sorted lines that are the same on every run of the same program: a test compares them
/// with those of a file in the repository.
///
/// Lines and shapes are left out, so that they may change.
///
/// ```
/// use burn_amp_core::{Precision, report::{Calls, PrecisionSnapshot, Report, Why}};
///
/// let mut report = Report::new("flex", "o1", Precision::BF16);
/// report.steps = 1;
/// let calls = |computed_in| Calls {
///     count: 2,
///     ..Calls::new("linear", vec![Precision::F32], computed_in, Why::Operands)
/// };
/// report.calls = vec![calls(Precision::BF16)];
/// let committed = PrecisionSnapshot::of(&report).to_string();
///
/// report.calls = vec![calls(Precision::F32)];
/// let changed = PrecisionSnapshot::of(&report).compare(&committed).unwrap_err();
/// assert_eq!(changed.to_string(), "\
/// what ran in which precision has changed (- expected, + found):
/// - ?  linear  f32 -> bf16  x2
/// + ?  linear  f32 -> f32  x2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecisionSnapshot(String);

/// The lines in which a [`PrecisionSnapshot`] differs from what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SnapshotChanged {
    /// The lines that are expected and were not found.
    pub expected: Vec<String>,
    /// The lines that were found and are not expected.
    pub found: Vec<String>,
}

impl PrecisionSnapshot {
    /// The snapshot of a report.
    pub fn of(report: &Report) -> Self {
        Self(lines(report))
    }

    /// Compares with the text of a snapshot. Comments, empty lines and the ends of lines do not count.
    ///
    /// # Errors
    ///
    /// The lines that differ.
    pub fn compare(&self, expected: &str) -> Result<(), SnapshotChanged> {
        let entries = |text: &str| -> BTreeSet<String> {
            let lines = text.lines().map(str::trim_end);
            let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            entries.map(str::to_owned).collect()
        };
        let (expected, found) = (entries(expected), entries(&self.0));
        if expected == found {
            return Ok(());
        }
        Err(SnapshotChanged {
            expected: expected.difference(&found).cloned().collect(),
            found: found.difference(&expected).cloned().collect(),
        })
    }
}

impl fmt::Display for PrecisionSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SnapshotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what ran in which precision has changed (- expected, + found):")?;
        let expected = self.expected.iter().map(|line| (line, '-'));
        let found = self.found.iter().map(|line| (line, '+'));
        // Both signs of a function and an op are beside each other.
        let place = |line: &String| line.split("  ").take(2).collect::<Vec<_>>().join("  ");
        let mut lines: Vec<_> = expected.chain(found).collect();
        lines.sort_by_key(|(line, sign)| (place(line), *sign == '+', (*line).clone()));
        lines
            .into_iter()
            .try_for_each(|(line, sign)| write!(f, "\n{sign} {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_expected_and_found_lines_beside_each_other() {
        let snapshot = PrecisionSnapshot(
            "# found\na::f  linear  bf16 -> bf16  x1\nb::f  softmax  f32 -> f32  x1\n".into(),
        );
        let same = "\r\n# other\r\nb::f  softmax  f32 -> f32  x1\r\na::f  linear  bf16 -> bf16  x1";
        assert_eq!(snapshot.compare(same), Ok(()));
        let other = "a::f  linear  bf16 -> bf16  x2\nb::f  softmax  bf16 -> bf16  x1\nc::f  float_exp  f32 -> f32  x1";
        assert_eq!(
            snapshot.compare(other).unwrap_err().to_string(),
            "what ran in which precision has changed (- expected, + found):\n\
             - a::f  linear  bf16 -> bf16  x2\n\
             + a::f  linear  bf16 -> bf16  x1\n\
             - b::f  softmax  bf16 -> bf16  x1\n\
             + b::f  softmax  f32 -> f32  x1\n\
             - c::f  float_exp  f32 -> f32  x1"
        );
    }
}
