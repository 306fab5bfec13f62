//! The workspace's own commands, run as `cargo xtask <command>`.
//!
//! * [`mod@test`]: `test`, all checks and tests that a change must pass
//! * [`ops`]: `ops`, which compares the op table and `Amp` with the sources of the locked Burn
//! * [`ops_table`]: `ops-table`, which writes the op table as a page of the book
//! * [`config`]: `config`, which writes the table of configuration keys as `amp.toml` and as a page of the book
//! * [`laws`]: `laws`, which writes the laws that the tests hold as a page of the book
//! * [`generated`]: writes generated files and checks that they are up to date
//! * [`burn`], [`amp`], [`shape`]: read the sources of Burn and of `Amp` with `syn`
//! * [`fuzz`]: `fuzz`, which runs random programs and compares their results with casts by hand
//! * [`gpu`], [`bundle`]: `gpu`, which packs a folder of tests and benchmarks for a GPU machine
//! * [`book`], [`markdown`]: `book`, which checks the links of all pages and builds the book
//! * [`type_names`]: checks that a type name is used once per published crate
//! * [`cuda`]: `cuda`, which checks what burn-amp does on CUDA without a GPU
//! * [`publish`]: `publish`, a dry run of publishing all crates
//! * [`recipes`]: `recipes`, which trains in simulated recipes of eight bits and compares the losses
//! * [`vulkan`]: finds and installs the software driver that the Vulkan suites run on
//! * [`mistakes`]: `mistakes`, which makes mistakes and writes what is said about each as a page of the book
//! * [`messages`]: tests of the page of messages
//! * [`workspace`]: finds packages and runs cargo

mod amp;
mod book;
mod bundle;
mod burn;
mod burn_0_22;
mod config;
mod cuda;
mod fuzz;
mod generated;
mod gpu;
mod laws;
mod markdown;
mod messages;
mod mistakes;
mod ops;
mod ops_table;
mod publish;
mod recipes;
mod shape;
mod test;
mod type_names;
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
    /// Checks the links of all Markdown pages and builds the book with mdBook, into target/book
    Book,
    /// Writes amp.toml and book/src/configuration.md from the table of configuration keys
    Config(generated::Options),
    /// Checks what burn-amp does on CUDA, without a GPU; see book/src/cuda.md
    Cuda(cuda::Options),
    /// Runs random programs and compares their results with casts by hand and with plain Burn
    Fuzz(fuzz::Options),
    /// Packs what a GPU machine needs to run the tests and the benchmarks; see book/src/gpu.md
    Gpu(gpu::Options),
    /// Writes book/src/inside/laws.md, the laws that the tests hold, from their headers
    Laws(generated::Options),
    /// Writes book/src/mistakes.md: mistakes made on purpose, and what is said about each
    Mistakes(generated::Options),
    /// Compares the op table and `Amp` with the traits of the locked Burn
    Ops,
    /// Writes book/src/ops.md, the classes of all float ops, from the op table
    OpsTable(generated::Options),
    /// Publishes all crates in their order, without uploading them
    Publish(publish::Options),
    /// Trains models in recipes of eight bits, simulated, and compares the losses with BF16's; see book/src/eight-bits.md
    Recipes(recipes::Options),
    /// Runs all checks and tests
    Test(test::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Book => book::run(),
        Command::Config(options) => config::FILES.run(&options),
        Command::Cuda(options) => cuda::run(options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Gpu(options) => gpu::run(&options),
        Command::Laws(options) => laws::PAGE.run(&options),
        Command::Mistakes(options) => mistakes::PAGE.run(&options),
        Command::Ops => ops::check(),
        Command::OpsTable(options) => ops_table::PAGE.run(&options),
        Command::Publish(options) => publish::run(&options),
        Command::Recipes(options) => recipes::run(&options),
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
