//! Tables of the repository, a line of JSON for each row.

use std::fs;

use anyhow::{Context, Result};
use serde::{Serialize, de::DeserializeOwned};

use crate::workspace;

/// Reads a table.
///
/// # Errors
///
/// Returns an error if the file is missing, and one that names the line that is not understood.
pub fn read<T: DeserializeOwned>(path: &str) -> Result<Vec<T>> {
    let text = fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned())?;
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("{path}:{}", index + 1))
        })
        .collect()
}

/// Writes a table.
pub fn write<T: Serialize>(path: &str, rows: &[T]) -> Result<()> {
    let mut text = String::new();
    for row in rows {
        text += &serde_json::to_string(row)?;
        text.push('\n');
    }
    fs::write(workspace::root().join(path), text).with_context(|| path.to_owned())?;
    println!("{path} written");
    Ok(())
}

/// Puts rows into a table, each in the place of the one that is of the same run.
pub fn replace<T>(table: &mut Vec<T>, rows: Vec<T>, is_same: impl Fn(&T, &T) -> bool) {
    for row in rows {
        match table.iter_mut().find(|old| is_same(old, &row)) {
            Some(old) => *old = row,
            None => table.push(row),
        }
    }
}
