//! The command `burn-amp`: checks `amp.toml`, explains the precision of every op, shows reports, runs steps again.
//!
//! Without the feature `replay` it depends on `burn-amp-core` only, and builds without Burn.
//!
//! * [`args`]: the command line
//! * [`check`], [`ops`], [`explain`], [`init`], [`report`], [`replay`], [`tune`], [`doctor`]: a command each
//! * [`settings`]: the configuration that the commands speak about
//! * [`input`]: the files that they read
//! * [`casts`]: what a class does to the operands of an op
//! * [`table`]: aligned columns
//! * [`failure`]: why a command ends with a status other than 0

mod args;
mod casts;
mod check;
mod doctor;
mod explain;
mod failure;
mod init;
mod input;
mod ops;
mod replay;
mod report;
mod settings;
mod table;
mod tune;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(cli.json);
            failure.status()
        }
    }
}

/// Runs a command and returns what it prints.
fn run(cli: &Cli) -> Result<String, Failure> {
    match &cli.command {
        Command::Check(args) => check::run(args, cli.json),
        Command::Ops(args) => ops::run(args, cli.json),
        Command::Explain(args) => explain::run(args, cli.json),
        Command::Init(args) => init::run(args, cli.json),
        Command::Report(args) => report::run(args, cli.json),
        Command::Replay(args) => replay::run(args, cli.json),
        Command::Tune(args) => tune::run(args, cli.json),
        Command::Doctor(args) => doctor::run(args, cli.json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "burn-amp", &mut script);
            Ok(String::from_utf8_lossy(&script).into_owned())
        }
    }
}

/// Prints a text; a reader that has closed the pipe, such as `head`, is no error.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Usage(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
