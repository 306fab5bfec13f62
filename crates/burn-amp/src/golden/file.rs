//! The file of golden runs: a section for each backend and dtype, with a line for each step.

use std::{collections::BTreeMap, fs, path::Path};

use super::GoldenError;

/// The runs of a file by their names.
pub(super) type Runs = BTreeMap<String, Vec<[u32; 2]>>;

/// Reads the runs of a file.
pub(super) fn read(file: &Path) -> Result<Runs, GoldenError> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| GoldenError::Io {
        file: name.clone(),
        error,
    })?;
    let mut runs = Runs::new();
    let mut run: Option<&mut Vec<[u32; 2]>> = None;
    for (at, line) in text.lines().enumerate() {
        let syntax = || GoldenError::Syntax {
            file: name.clone(),
            line: at + 1,
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            run = Some(runs.entry(name.to_owned()).or_default());
            continue;
        }
        let steps = run.as_mut().ok_or_else(syntax)?;
        let words: Vec<_> = line.split_whitespace().collect();
        let [step, loss, norm] = words[..] else {
            return Err(syntax());
        };
        let bits = |word| u32::from_str_radix(word, 16).map_err(|_| syntax());
        if step.parse() != Ok(steps.len() + 1) {
            return Err(syntax());
        }
        steps.push([bits(loss)?, bits(norm)?]);
    }
    Ok(runs)
}

/// The text of a file.
pub(super) fn text(runs: &Runs) -> String {
    let mut text =
        "# The loss and the gradient norm of each step, as the bits of an f32.\n".to_owned();
    for (name, steps) in runs {
        text += &format!("\n[{name}]\n");
        for (at, [loss, norm]) in steps.iter().enumerate() {
            text += &format!("{} {loss:08x} {norm:08x}\n", at + 1);
        }
    }
    text
}
