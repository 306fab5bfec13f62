//! Programs that rustc refuses.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::{Told, built::Built};
use crate::workspace;

/// The folder of the programs.
const FOLDER: &str = "tests/mistakes";

/// Compiles each program; the first line of its documentation says what is wrong.
pub fn all(built: &Built) -> Result<Vec<Told>> {
    let folder = workspace::root().join(FOLDER);
    let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<_> = files
        .map(|file| file.map(|file| file.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    files.iter().map(|file| told(built, file)).collect()
}

fn told(built: &Built, file: &Path) -> Result<Told> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let what = text.lines().next().unwrap_or_default();
    let what = what.trim_start_matches("//!").trim();
    let out = tempfile::tempdir()?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc
        .args(["--edition", "2024", "--emit=metadata", "--color", "never"])
        .arg("--out-dir")
        .arg(out.path())
        .arg(file)
        .current_dir(workspace::root());
    for name in ["burn", "burn_amp"] {
        let library = built.library(name)?;
        rustc.arg("--extern");
        rustc.arg(format!("{name}={}", library.display()));
        let folder = library.parent().context("a library is in a folder")?;
        // Cargo puts the libraries of the workspace above those that they depend on.
        for folder in [folder.to_owned(), folder.join("deps")] {
            rustc
                .arg("-L")
                .arg(format!("dependency={}", folder.display()));
        }
    }
    let output = rustc.output().context("rustc does not start")?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(
        !output.status.success(),
        "{}: rustc compiles it",
        file.display()
    );
    Ok(Told {
        what: format!(
            "{what} ([`{name}`](../../{FOLDER}/{name}))",
            name = name(file)
        ),
        said: ours(&said),
    })
}

fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The message of the first error and its notes, which are burn-amp's: the rest is rustc's and differs between its
/// versions.
fn ours(said: &str) -> String {
    let mut kept = Vec::new();
    for line in said.lines() {
        if line.starts_with("error") {
            if !kept.is_empty() {
                break;
            }
            kept.push(line.to_owned());
        } else if let Some(note) = line.trim_start().strip_prefix("= note: ")
            && !note.starts_with("required for")
            && !note.starts_with("the full name")
            && !note.starts_with("consider using")
        {
            kept.push(format!("  note: {note}"));
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_and_its_notes_are_ours() {
        let said = "error[E0277]: `A` is not made of `Amp`\n --> a.rs:8:22\n  |\n8 |  let\n  |\n   = help: b\n   = note: write `Amp<A>`\n   = note: required for `A`\nerror: aborting\n";
        assert_eq!(
            ours(said),
            "error[E0277]: `A` is not made of `Amp`\n  note: write `Amp<A>`"
        );
    }
}
