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
    pub rows: Vec<PyTorchRow>,
    /// The folder that holds the weights, batches and gradients.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// One subject in one precision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PyTorchRow {
    pub subject: String,
    pub precision: String,
    /// The bytes that autograd saves, without parameters, the batch, and the low copies of parameters.
    pub kept_bytes: u64,
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
