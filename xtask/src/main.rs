//! The workspace's own commands, run as `cargo xtask <command>`.
//!
//! * [`mod@test`]: `test`, everything that must hold before a change goes in
//! * [`ops`]: `ops`, the op table and the decorator against the sources of the locked Burn
//! * [`ops_table`]: `ops-table`, the op table as a page of the docs
//! * [`config`]: `config`, the table of configuration keys as the root's `amp.toml` and as a page of the docs
//! * [`generated`]: files that are generated, and checked to be up to date
//! * [`burn`], [`amp`], [`shape`]: what the two sides say, read with `syn`
//! * [`gpu`], [`bundle`]: `gpu`, what a GPU machine needs to test and to measure, in one folder
//! * [`vulkan`]: the software driver on which the Vulkan suites run
//! * [`workspace`]: where things are, and how cargo is called

mod amp;
mod bundle;
mod burn;
mod config;
mod generated;
mod gpu;
mod ops;
mod ops_table;
mod shape;
mod test;
mod vulkan;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The commands of the burn-amp workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes amp.toml and docs/configuration.md from the table of configuration keys
    Config(generated::Options),
    /// Packs what a GPU machine needs to run the tests and the benchmark; docs/gpu.md tells the rest
    Gpu(gpu::Options),
    /// Compares the op table and the decorator with the op traits of the locked Burn
    Ops,
    /// Writes docs/ops.md, the classes of all float ops, from the op table
    OpsTable(generated::Options),
    /// Runs all checks and tests
    Test(test::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Config(options) => config::run(options),
        Command::Gpu(options) => gpu::run(&options),
        Command::Ops => ops::check(),
        Command::OpsTable(options) => ops_table::run(options),
        Command::Test(options) => return test::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
