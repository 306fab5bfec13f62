//! Generated files of the repository: writes them and checks that they are up to date.

use std::fs;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace;

/// Chooses what to do with the generated text; without an option, the files are written.
#[derive(Args)]
pub struct Options {
    /// Fails if a file differs from what would be written
    #[arg(long, conflicts_with = "print")]
    check: bool,
    /// Prints the text instead of writing it
    #[arg(long)]
    print: bool,
}

/// A file and its generated text.
pub struct Generated {
    /// The path, relative to the root of the workspace.
    pub path: &'static str,
    /// The whole text.
    pub text: String,
}

/// A command that writes generated files.
pub struct Command {
    /// Its name, after `cargo xtask`.
    pub name: &'static str,
    /// Generates the files.
    pub files: fn() -> Result<Vec<Generated>>,
}

impl Command {
    /// Writes, prints or checks the files.
    pub fn run(&self, options: &Options) -> Result<()> {
        if options.check {
            return self.check();
        }
        for Generated { path, text } in (self.files)()? {
            if options.print {
                print!("{text}");
                continue;
            }
            let full = workspace::root().join(path);
            if let Some(folder) = full.parent() {
                fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            }
            fs::write(&full, text).with_context(|| full.display().to_string())?;
            println!("{path} written");
        }
        Ok(())
    }

    /// Fails if a file in the repository differs from its generated text.
    pub fn check(&self) -> Result<()> {
        for Generated { path, text } in (self.files)()? {
            let full = workspace::root().join(path);
            let committed =
                fs::read_to_string(&full).with_context(|| full.display().to_string())?;
            // A checkout may have changed the line endings.
            if committed.replace("\r\n", "\n") != text {
                bail!("{path} is not up to date; run `cargo xtask {}`", self.name);
            }
            println!("{path} is up to date");
        }
        Ok(())
    }
}
