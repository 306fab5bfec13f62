//! What `examples/lab/pytorch/footprint.py` measured.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::gradients::GradientError;

/// PyTorch's numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PyTorch {
    /// The version of PyTorch.
    pub version: String,
    /// The number of draws of weights and batch that gradient errors are taken over.
    pub draws: usize,
    pub rows: Vec<PyTorchRow>,
    /// The folder that holds the weights, batches and gradients of each draw, in folders named by their numbers.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// One subject in one precision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PyTorchRow {
    pub subject: String,
    pub precision: String,
    /// The bytes that autograd saves and the output holds, without parameters, the batch, and the low copies of
    /// parameters.
    pub kept_bytes: u64,
    /// The bytes that a further batch adds to them.
    pub tensor_bytes: u64,
    /// The bytes of the low copies of parameters.
    pub weight_cast_bytes: u64,
    pub gradient_error: GradientError,
}

impl PyTorch {
    /// Reads `footprint.json` in a folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is not one of `footprint.py`.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("footprint.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let read: Self = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Self {
            folder: folder.to_owned(),
            ..read
        })
    }

    pub fn row(&self, subject: &str, precision: &str) -> Option<&PyTorchRow> {
        let rows = self.rows.iter();
        rows.filter(|row| row.subject == subject)
            .find(|row| row.precision == precision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"version": "2.6.0", "draws": 4, "rows": [{"subject": "mlp", "precision": "bf16",
        "kept_bytes": 300, "tensor_bytes": 200, "weight_cast_bytes": 100,
        "gradient_error": {"overall": 0.01, "largest": 0.02, "parameter": "layers.0.weight"}}]}"#;

    #[test]
    fn reads_what_footprint_py_writes() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("footprint.json"), TEXT).unwrap();
        let read = PyTorch::open(directory.path()).unwrap();
        assert_eq!(read.row("mlp", "bf16").unwrap().tensor_bytes, 200);
        assert!(read.row("mlp", "f16").is_none());
        assert_eq!(read.folder, directory.path());
    }

    #[test]
    fn a_file_of_something_else_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = PyTorch::open(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("footprint.json"), "{error}");
        fs::write(
            directory.path().join("footprint.json"),
            TEXT.replace("draws", "seeds"),
        )
        .unwrap();
        assert!(PyTorch::open(directory.path()).is_err());
    }
}
