//! The outcomes of the steps, and the table of them at the end of a run.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;

/// The outcome of a step.
#[derive(Debug)]
pub enum Outcome {
    /// The step ran and found nothing wrong.
    Passed,
    /// The step could not run on this machine, or not in time, for this reason.
    Skipped(String),
    /// The step found a problem or could not finish.
    Failed(anyhow::Error),
    /// The step did not start, because an earlier one failed.
    NotRun,
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(error) => Self::Failed(error),
        }
    }
}

/// A line of the table.
pub struct Report {
    pub name: &'static str,
    pub proves: &'static str,
    pub outcome: Outcome,
    pub took: Duration,
}

impl Report {
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

/// Formats a table with a line for each step, and the total time; then what skipped steps would have proved.
pub fn summary(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let word = match &report.outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "SKIPPED",
            Outcome::Failed(_) => "FAILED",
            Outcome::NotRun => "not run",
        };
        let seconds = report.took.as_secs_f64();
        let _ = writeln!(text, "{:14} {word:8} {seconds:8.1} s", report.name);
    }
    let total: Duration = reports.iter().map(|report| report.took).sum();
    let _ = writeln!(text, "{:23} {:8.1} s", "total", total.as_secs_f64());
    for report in reports {
        if let Outcome::Skipped(why) = &report.outcome {
            let Report { name, proves, .. } = report;
            let _ = writeln!(text, "not proved: {proves} (`{name}`: {why})");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_line_per_step_and_the_total() {
        let report = |name, outcome, milliseconds| Report {
            name,
            proves: "it works",
            outcome,
            took: Duration::from_millis(milliseconds),
        };
        let skipped = Outcome::Skipped("no driver; `apt-get install driver`".to_owned());
        let reports = [
            report("fmt", Outcome::Passed, 1500),
            report("vulkan", skipped, 0),
            report("test", Outcome::Failed(anyhow::Error::msg("x")), 60_000),
            report("doctest", Outcome::NotRun, 0),
        ];
        assert_eq!(
            summary(&reports),
            "fmt            passed        1.5 s\n\
             vulkan         SKIPPED       0.0 s\n\
             test           FAILED       60.0 s\n\
             doctest        not run       0.0 s\n\
             total                       61.5 s\n\
             not proved: it works (`vulkan`: no driver; `apt-get install driver`)\n"
        );
    }
}
