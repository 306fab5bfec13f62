//! A measured run as a line of JSON. `examples/lab/pytorch/README.md` gives the unit of every field.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One measured run. Every field is always written; a number that could not be measured, inf and NaN are `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub model: String,
    pub size: String,
    pub batch_size: usize,
    pub precision: String,
    pub warmup: usize,
    pub device: String,
    pub backend: String,
    pub framework: String,
    pub version: String,
    pub params: Option<usize>,
    pub shape: Option<Vec<usize>>,
    pub steps: usize,
    pub step_ms_median: Option<f64>,
    pub step_ms_p10: Option<f64>,
    pub step_ms_p90: Option<f64>,
    pub items_per_s: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    pub loss_first: Option<f64>,
    pub loss_last: Option<f64>,
    pub skipped_steps: Option<u64>,
    pub loss_scale: Option<f64>,
    pub error: Option<String>,
}

/// [`Entry::framework`] of the program `bench`.
pub const OURS: &str = "burn-amp";
/// [`Entry::framework`] of the twins in PyTorch.
pub const PYTORCH: &str = "pytorch";

/// [`Entry::precision`] that speed-ups are relative to.
pub const F32: &str = "f32";

impl Entry {
    /// Whether both entries have the same model, batch and machine; their precisions may differ.
    pub fn compares_to(&self, other: &Self) -> bool {
        self.same_work(other)
            && (&self.framework, &self.backend, &self.device)
                == (&other.framework, &other.backend, &other.device)
    }

    /// Whether both entries have the same model and batch, whatever framework or machine computed them.
    ///
    /// Changed settings of a model are visible in the shape of its batch.
    pub fn same_work(&self, other: &Self) -> bool {
        (&self.model, &self.size, self.batch_size, &self.shape)
            == (&other.model, &other.size, other.batch_size, &other.shape)
    }

    /// Like [`same_work`](Self::same_work), but a missing shape equals any other: PyTorch may fail before it has a
    /// batch.
    pub fn may_be_same_work(&self, other: &Self) -> bool {
        (&self.model, &self.size, self.batch_size) == (&other.model, &other.size, other.batch_size)
            && (self.shape == other.shape || self.shape.is_none() || other.shape.is_none())
    }

    /// Returns the shape of the batch, such as `16x512`.
    pub fn batch(&self) -> String {
        let Some(shape) = &self.shape else {
            return self.batch_size.to_string();
        };
        let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
        sides.join("x")
    }

    /// Returns the ratio of its throughput to that of `other`.
    pub fn speed_up_over(&self, other: &Self) -> Option<f64> {
        Some(self.items_per_s? / other.items_per_s?)
    }
}

/// Summarizes the entry in a few words.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(step), Some(items)) = (self.step_ms_median, self.items_per_s) {
            write!(f, "{step:.2} ms, {items:.1} items/s, ")?;
        }
        match (&self.error, self.loss_last) {
            (Some(error), _) => f.write_str(error),
            (None, Some(loss)) => write!(f, "loss {loss:.4}"),
            (None, None) => f.write_str("no loss"),
        }
    }
}

/// A file to append entries to, or none.
pub struct Lines(Option<File>);

impl Lines {
    /// # Errors
    ///
    /// Returns an error if the file cannot be written to.
    pub fn append_to(path: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| path.display().to_string())
        };
        path.map(open).transpose().map(Self)
    }

    /// Appends a line at once, so that nothing is lost when the process is killed.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(file) = &mut self.0 else {
            return Ok(());
        };
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// Reads the entries of all files, in order.
///
/// # Errors
///
/// Returns an error if a file cannot be read or a line is not an entry; the error names the file and the line.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        for (index, line) in text.lines().enumerate() {
            let entry = serde_json::from_str(line)
                .with_context(|| format!("{}:{}", path.display(), index + 1))?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"model": "mlp", "size": "tiny", "batch_size": 8, "precision": "amp-f16",
        "warmup": 5, "device": "a CPU", "backend": "cpu", "framework": "pytorch", "version": "2.6.0", "params": 26154,
        "shape": [8, 784], "steps": 0, "step_ms_median": null, "step_ms_p10": null, "step_ms_p90": null,
        "items_per_s": null, "peak_memory_bytes": null, "loss_first": null, "loss_last": null, "skipped_steps": null,
        "loss_scale": null, "error": "Unsupported: f16 autocast on the CPU needs PyTorch 2.3"}"#;

    #[test]
    fn reads_what_pytorch_writes_and_writes_the_same() {
        let entry: Entry = serde_json::from_str(LINE).unwrap();
        let fields = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(
            fields(&serde_json::to_string(&entry).unwrap()),
            fields(LINE)
        );
    }

    #[test]
    fn what_is_not_finite_is_written_as_null() {
        let mut entry: Entry = serde_json::from_str(LINE).unwrap();
        entry.loss_last = Some(f64::NAN);
        let again: Entry = serde_json::from_str(&serde_json::to_string(&entry).unwrap()).unwrap();
        assert_eq!(again.loss_last, None);
    }

    #[test]
    fn a_line_that_is_not_an_entry_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let entry: Entry = serde_json::from_str(LINE).unwrap();
        let line = serde_json::to_string(&entry).unwrap();
        fs::write(&path, format!("{line}\n{{}}\n")).unwrap();
        let error = read_all(&[path]).unwrap_err();
        assert!(error.to_string().ends_with("a.jsonl:2"), "{error}");
    }
}
