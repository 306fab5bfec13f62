//! Mistakes of training programs, and of command lines.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::{Told, built::Built, settings};

/// The program and the arguments after its name.
const COMMAND_LINES: &[(&str, &[&str])] = &[
    ("burn-amp", &["chek"]),
    ("burn-amp", &["check", "nowhere.toml"]),
    ("burn-amp", &["explain", "sofmax"]),
    ("burn-amp", &["ops", "--class", "f32"]),
    ("burn-amp", &["init", "--compute", "fp16"]),
    ("burn-amp", &["report", "nowhere.json"]),
    ("burn-amp", &["check", "."]),
    ("burn-amp", &["report", "."]),
    ("digits", &["--backend", "vulkan"]),
    ("digits", &["--precision", "f64"]),
    ("digits", &["--epochs", "0"]),
    ("learner", &["--epochs", "0"]),
    ("learner", &["--resume", "2"]),
];

/// Runs each mistake of `tests/examples/mistakes.rs`.
pub fn training(built: &Built) -> Result<Vec<Told>> {
    let program = built.program("mistakes")?;
    let list = Command::new(program)
        .output()
        .context("mistakes does not start")?;
    let list = String::from_utf8(list.stdout)?;
    let mistakes: Vec<_> = list
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    ensure!(!mistakes.is_empty(), "the program makes no mistakes");
    let told = |(name, what): (&str, &str)| {
        Ok(Told {
            what: format!("{what} (`{name}`)"),
            said: said(program, &[name])?,
        })
    };
    mistakes.into_iter().map(told).collect()
}

/// Runs each command line.
pub fn command_lines(built: &Built) -> Result<Vec<Told>> {
    let told = |(name, args): &(&str, &[&str])| {
        Ok(Told {
            what: format!("`{name} {}`", args.join(" ")),
            said: said(built.program(name)?, args)?,
        })
    };
    COMMAND_LINES.iter().map(told).collect()
}

/// What a program writes to standard error in a folder of its own.
fn said(program: &Path, args: &[&str]) -> Result<String> {
    let folder = settings::empty()?;
    let output = Command::new(program)
        .args(args)
        .current_dir(folder.path())
        .env_remove("RUST_BACKTRACE")
        .output()
        .with_context(|| format!("{} does not start", program.display()))?;
    Ok(without_noise(&String::from_utf8(output.stderr)?))
}

/// Leaves out what is not about the mistake: what was decided, the place of a panic in burn-amp, and how to see more.
fn without_noise(said: &str) -> String {
    let is_noise = |line: &str| {
        line.is_empty()
            || line.contains(" computes in ")
            || line.starts_with("burn-amp: configuration from ")
            || line.starts_with("note: run with `RUST_BACKTRACE")
            || line.starts_with("For more information, try")
            || line.starts_with("thread 'main'")
    };
    let mut in_report = false;
    let kept = said.lines().filter(|line| {
        in_report = match line {
            line if line.starts_with("Precision report: ") => true,
            line if line.starts_with("burn-amp: ") => false,
            _ => in_report,
        };
        !in_report && !is_noise(line)
    });
    kept.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_stays() {
        let said = "burn-amp: flex on Cpu computes in f16\n\nthread 'main' (9) panicked at a.rs:1:2:\nwrong\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(without_noise(said), "wrong");
    }
}
