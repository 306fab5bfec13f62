//! `cargo xtask bench-table`: our results and PyTorch's side by side.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use bench_entries::{Comparison, read_all};
use clap::Args;

/// Which results, and where the table goes.
#[derive(Args)]
pub struct Options {
    /// JSON lines of examples/bench and of bench/pytorch; of equal runs the last one counts
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file for the table, which is printed otherwise
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Makes the markdown table.
pub fn run(options: &Options) -> Result<()> {
    let table = Comparison(&read_all(&options.files)?).to_string();
    match &options.out {
        None => {
            print!("{table}");
            Ok(())
        }
        Some(out) => fs::write(out, table).with_context(|| out.display().to_string()),
    }
}
