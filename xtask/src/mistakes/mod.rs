//! `cargo xtask mistakes`: makes mistakes on purpose and writes what is said about each as a page of the book.
//!
//! * [`settings`]: mistakes in files and environment variables, which `burn-amp-core` refuses
//! * [`types`]: programs that rustc refuses, `tests/mistakes/*.rs`
//! * [`programs`]: mistakes of training programs, `tests/examples/mistakes.rs`, and of command lines
//! * [`built`]: builds what they need, with the features that the tests have

mod built;
mod programs;
mod settings;
mod types;

use std::fmt::Write as _;

use anyhow::Result;

use self::built::Built;
use crate::generated::{Command, Generated};

const HEADER: &str = "\
# Mistakes and what they say

<!-- Written by `cargo xtask mistakes`; do not edit. -->

Mistakes that were made on purpose, each with what it is answered with. `cargo xtask test --rest` makes them again and
compares the text. [Messages](messages.md) says more about those that end with `[messages#…]`.
";

/// A mistake, and what is said about it.
struct Told {
    /// What is wrong, in Markdown.
    what: String,
    /// The text.
    said: String,
}

/// The page of the mistakes.
pub const PAGE: Command = Command {
    name: "mistakes",
    files,
};

fn files() -> Result<Vec<Generated>> {
    let built = Built::new()?;
    let mut page = HEADER.to_owned();
    for (title, mistakes) in [
        ("In `amp.toml` and `amp.json`", settings::of_files()?),
        ("With the files themselves", settings::with_files()?),
        ("In environment variables", settings::of_variables()?),
        ("In types", types::all(&built)?),
        ("In training programs", programs::training(&built)?),
        ("On command lines", programs::command_lines(&built)?),
    ] {
        section(&mut page, title, &mistakes)?;
    }
    Ok(vec![Generated {
        path: "book/src/mistakes.md",
        text: page,
    }])
}

fn section(page: &mut String, title: &str, mistakes: &[Told]) -> Result<()> {
    writeln!(page, "\n## {title}")?;
    for Told { what, said } in mistakes {
        writeln!(page, "\n{what}\n\n```text\n{}\n```", said.trim_end())?;
    }
    Ok(())
}
