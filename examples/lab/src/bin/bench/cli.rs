//! The command line.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args as Group, Parser, Subcommand};
use lab::{choice::Choice, cli::Backend, precision::Precision};
use zoo::Size;

/// Measures training throughput and peak memory: models x batch sizes x precisions.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Subcommand)]
pub enum Command {
    /// Prints burn-amp's and PyTorch's numbers side by side, as a markdown table.
    Table {
        /// Files that `--out` wrote, here and in `examples/lab/pytorch`. If a run was measured several times, the last
        /// one counts.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Measures each kernel of burn-amp-kernels against its reference in Burn's ops.
    Kernels(KernelArgs),
}

#[derive(Group)]
pub struct KernelArgs {
    /// The backend to compute on.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: Backend,

    /// The shapes that the kernels compute on: rows and their length.
    #[arg(long, num_args = 1.., value_name = "ROWSxCOLUMNS", value_parser = shape, default_values = ["4096x768", "4096x4096"])]
    pub shapes: Vec<(usize, usize)>,

    /// A file to append JSON lines to, each as soon as its kernel is measured.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Group)]
pub struct RunArgs {
    /// The backend to compute on.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: Backend,

    /// The models to measure, in this order; all by default. Numbers of a model's configuration can be replaced, as in
    /// `bert:seq_len=512,batch_size=16`.
    #[arg(long = "model", visible_alias = "models", num_args = 1.., value_name = "NAME[:FIELD=NUMBER,..]")]
    pub models: Vec<Choice>,

    /// The batch sizes; by default the model's own.
    #[arg(long, num_args = 1.., value_name = "ITEMS")]
    pub batch_size: Vec<NonZeroUsize>,

    /// The precisions to train in; all by default.
    #[arg(long, value_enum, num_args = 1..)]
    pub precision: Vec<Precision>,

    /// The size of the models: `full` as published, `tiny` to train on a CPU in seconds. By default `tiny` on the CPU,
    /// else `full`.
    #[arg(long)]
    pub size: Option<Size>,

    /// The number of timed steps per run.
    #[arg(long, default_value = "20")]
    pub steps: NonZeroUsize,

    /// The number of steps before the timed ones.
    #[arg(long, default_value_t = 5)]
    pub warmup: usize,

    /// A file to append JSON lines to, each as soon as its run is done.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Stops after this time, and skips the runs that would not end within it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget_seconds: Option<f64>,

    /// Lists the models and precisions, and measures nothing.
    #[arg(long)]
    pub list: bool,
}

impl RunArgs {
    pub fn size(&self) -> Size {
        self.size.unwrap_or(self.backend.usual_size())
    }
}

fn shape(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse().ok().filter(|size| *size > 0);
    text.split_once('x')
        .and_then(|(rows, columns)| Some((number(rows)?, number(columns)?)))
        .ok_or_else(|| "expected rows and columns, such as 4096x768".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds >= 0.0 => Ok(seconds),
        Ok(_) | Err(_) => Err("expected a number of seconds from 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn refuses_what_cannot_be_measured() {
        for (arguments, reason) in [
            (&["--steps", "0"][..], "zero"),
            (&["--batch-size", "0"], "zero"),
            (&["--budget-seconds=-1"], "from 0"),
            (&["--budget-seconds", "NaN"], "from 0"),
            (&["--precision", "f64"], "amp-f16-static-128"),
            (&["--model", "vgg"], "unknown `vgg`"),
            (&["--models", "bert:width=x"], "expected `field=number`"),
            (&["--size", "huge"], "allowed: full, tiny"),
            (&["--list", "table", "a.jsonl"], "cannot be used with"),
        ] {
            let arguments = ["bench"].iter().chain(arguments);
            let error = Args::try_parse_from(arguments).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
