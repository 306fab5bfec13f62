//! How long each step took when it last passed, in `target/xtask/times.json`.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};

use crate::workspace;

/// Seconds by the names of steps.
#[derive(Debug, Default, PartialEq)]
pub struct Times(BTreeMap<String, f64>);

impl Times {
    /// Those in the file; none if there is no file, or it cannot be read.
    pub fn read() -> Self {
        let text = fs::read_to_string(path()).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    pub fn write(&self) -> Result<()> {
        let path = path();
        let folder = path.parent().context("a file in a folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let text = serde_json::to_string_pretty(&self.0)?;
        fs::write(&path, text + "\n").with_context(|| path.display().to_string())
    }

    pub fn set(&mut self, name: &str, took: Duration) {
        let seconds = (took.as_secs_f64() * 10.0).round() / 10.0;
        self.0.insert(name.to_owned(), seconds);
    }

    /// The time of a step as a column: `-` if it never passed.
    pub fn column(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(seconds) => format!("{seconds:8.1} s"),
            None => format!("{:>8}  ", "-"),
        }
    }
}

fn path() -> PathBuf {
    workspace::root().join("target/xtask/times.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_counts() {
        let mut times = Times::default();
        assert_eq!(times.column("fmt"), "       -  ");
        times.set("fmt", Duration::from_millis(99_900));
        times.set("fmt", Duration::from_millis(1_240));
        assert_eq!(times.column("fmt"), "     1.2 s");
    }
}
