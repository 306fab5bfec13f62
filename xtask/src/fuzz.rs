//! `cargo xtask fuzz`: runs random programs under burn-amp and compares them with casts by hand and with plain Burn.
//!
//! The programs are those of `tests/src/random`; this builds and runs `tests/examples/fuzz.rs` with the features that
//! the tests have, so that Burn is not built again.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::workspace::{cargo, executable};

/// The options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// The number of programs
    #[arg(long, default_value_t = 10_000)]
    programs: u64,
    /// The seed of the first program; the next one has the next seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The threads that run programs side by side
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Ends the run after this many wrong programs
    #[arg(long, default_value_t = 1)]
    most: u64,
    /// Lists wrong programs without shrinking and printing them
    #[arg(long)]
    list: bool,
    /// Compares the calls of a pass, one by one, with Flex and F64 instead, as `burn-amp replay` does
    #[arg(long)]
    alike: bool,
}

/// Builds and runs the programs; a wrong one is an error.
pub fn run(options: &Options) -> Result<()> {
    let mut build = cargo(&["build", "--locked", "--workspace", "--example", "fuzz"]);
    let fuzz = executable(&mut build, "fuzz")?;
    let numbers = [
        options.programs,
        options.seed,
        options.threads,
        options.most,
        u64::from(!options.list),
        u64::from(options.alike),
    ];
    let status = Command::new(fuzz)
        .args(numbers.map(|number| number.to_string()))
        .status()?;
    ensure!(
        status.success(),
        "a random program is wrong; `--seed` and `--programs 1` run it alone"
    );
    Ok(())
}
