//! The precision report: which op ran in which precision, where, why, and what was cast for it.
//!
//! `burn-amp` records a [`Report`]; this crate reads, shows and compares it, without Burn.
//!
//! * `calls`: the calls of an op, and their casts
//! * `totals`: what is added up over a report
//! * `advice`: what it says to change
//! * `sections`: its tables
//! * `text`: what a terminal shows
//! * `html`: a page for a browser; `health`: the pictures in it
//! * `snapshot`: sorted lines for a test
//! * `compare`: what differs between two reports

mod advice;
mod calls;
mod compare;
mod health;
mod html;
mod sections;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;
mod totals;
mod units;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Precision, health::Look};

pub use advice::{Advice, Lint};
pub use calls::{Calls, Casting, Sample, Why};
pub use compare::{Count, Difference, differences};
pub use snapshot::{PrecisionSnapshot, SnapshotChanged};
pub use totals::{OpTotal, Totals};

/// What ran in which precision during some training steps.
///
/// The ops are those that the program calls. Of the backward pass of each it has the gradient with which it began.
///
/// ```
/// use burn_amp_core::{Precision, report::{Calls, Report, Why}};
///
/// let mut report = Report::new("flex", "o1", Precision::BF16);
/// report.steps = 2;
/// report.calls.push(Calls {
///     count: 8,
///     ..Calls::new("float_matmul", vec![Precision::F32, Precision::BF16], Precision::BF16, Why::Class("low".into()))
/// });
/// let json = report.to_json();
/// assert_eq!(Report::from_json(&json)?, report);
/// assert!(report.snapshot().contains("float_matmul  f32, bf16 -> bf16  x4"));
/// # Ok::<(), burn_amp_core::report::ReadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: [`Report::VERSION`].
    pub version: u32,
    /// The name of the backend.
    pub backend: String,
    /// The preset in force.
    pub preset: String,
    /// The dtype of ops of class `low`.
    pub compute: Precision,
    /// Whether the loss is scaled, or gradients are checked.
    pub scales_loss: bool,
    /// The number of steps that were recorded.
    pub steps: u64,
    /// The calls, added up by op, place, dtypes and reason.
    pub calls: Vec<Calls>,
    /// The tensors that graphs kept for their backward passes; `None` if the backend cannot tell.
    #[serde(default)]
    pub kept: Option<Vec<Kept>>,
    /// The gradients of results, as backward passes handed them to the op that had made the result.
    #[serde(default)]
    pub gradients: Vec<Kept>,
    /// The steps of optimizers that were looked at meanwhile.
    #[serde(default)]
    pub health: Vec<Look>,
}

/// Tensors of one dtype and shape of an op at one place.
///
/// Among those that a report calls kept are the ones that an op made and that were still in use when a backward pass began: the
/// graph kept them, or the program did, such as logits for a metric. Parameters and the batch are not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The name of the op that made them, or cast them for itself, or whose results they are the gradients of.
    pub op: String,
    /// The line of the program that called the op.
    pub site: Option<Site>,
    /// The dtype, by its name: `bf16`, `bool`, `i32`, …
    pub dtype: String,
    /// The shape of one of them.
    pub shape: Vec<usize>,
    /// Their number in all steps.
    pub count: u64,
    /// Their bytes in all steps.
    pub bytes: u64,
}

/// A place in the source of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// The file, as the compiler was told its name.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The function, behind the name of its file: `model::forward`. Without line tables it has its whole path.
    pub function: String,
}

/// The reason why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is no report.
    #[error("not a precision report: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Another version of burn-amp has written it.
    #[error(
        "the report has version {found} of the format, and this program reads version {}",
        Report::VERSION
    )]
    Version {
        /// The version of the report.
        found: u32,
    },
}

impl Report {
    /// The version of the format that this crate reads and writes.
    pub const VERSION: u32 = 1;

    /// A report without steps, of a run that scales the loss if it computes in F16.
    pub fn new(backend: &str, preset: &str, compute: Precision) -> Self {
        Self {
            version: Self::VERSION,
            backend: backend.into(),
            preset: preset.into(),
            compute,
            scales_loss: compute == Precision::F16,
            steps: 0,
            calls: Vec::new(),
            kept: None,
            gradients: Vec::new(),
            health: Vec::new(),
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is no report, or one of another version.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let report: Self = serde_json::from_str(text)?;
        match report.version {
            Self::VERSION => Ok(report),
            found => Err(ReadError::Version { found }),
        }
    }

    /// Writes the report as JSON that [`from_json`](Self::from_json) reads.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers")
    }

    /// Tables for a terminal.
    pub fn to_text(&self) -> String {
        text::report(self)
    }

    /// A page for a browser, in one file.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// One line for each op at each function of the program, sorted: its dtypes and the number of its calls per step.
    ///
    /// The same program gives the same text on every run, and lines that move within a function do not change it. Keep
    /// it in the repository and compare it in a test: a layer that moves to F32, or a cast that appears, changes it.
    pub fn snapshot(&self) -> String {
        snapshot::lines(self)
    }

    /// Sorts the calls by place and op, so that equal runs give equal reports.
    pub fn sort(&mut self) {
        self.calls.sort_by(Calls::order);
        fn key(kept: &Kept) -> (&Option<Site>, &str, &str, &[usize]) {
            (&kept.site, &kept.op, &kept.dtype, &kept.shape)
        }
        for tensors in self.kept.iter_mut().chain([&mut self.gradients]) {
            tensors.sort_by(|a, b| key(a).cmp(&key(b)));
        }
    }

    /// A number of calls or bytes per step.
    pub(crate) fn per_step(&self, total: u64) -> f64 {
        total as f64 / self.steps.max(1) as f64
    }
}

/// A place in words.
fn place(site: &Option<Site>) -> String {
    site.as_ref().map_or("?".into(), Site::to_string)
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.function),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}
