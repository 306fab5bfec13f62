//! The command line.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::{choice::Choice, precision::Precision};

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
    /// Lines up burn-amp's numbers with PyTorch's, as a markdown table.
    Table {
        /// What `--out` wrote, here and in `bench/pytorch`. Of equal runs the last one counts.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Measures each kernel of burn-amp-kernels against its reference in Burn's ops.
    Kernels(KernelArgs),
}

#[derive(Group)]
pub struct KernelArgs {
    /// What computes.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: BackendChoice,

    /// What the kernels compute on: rows and their length.
    #[arg(long, num_args = 1.., value_name = "ROWSxCOLUMNS", value_parser = shape, default_values = ["4096x768", "4096x4096"])]
    pub shapes: Vec<(usize, usize)>,

    /// A file to append JSON lines to, each as soon as its kernel is measured.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Group)]
pub struct RunArgs {
    /// What computes.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: BackendChoice,

    /// The models, the most valuable first; all by default.
    #[arg(long, num_args = 1.., value_name = "NAME[:FIELD=NUMBER,..]")]
    pub models: Vec<Choice>,

    /// Items per step; the model's own number by default.
    #[arg(long, num_args = 1.., value_name = "ITEMS")]
    pub batch_size: Vec<NonZeroUsize>,

    /// The precisions; all by default.
    #[arg(long, value_enum, num_args = 1..)]
    pub precision: Vec<Precision>,

    #[arg(long, value_enum, default_value = "full")]
    pub size: SizeChoice,

    /// Timed steps.
    #[arg(long, default_value = "20")]
    pub steps: NonZeroUsize,

    /// Steps before them.
    #[arg(long, default_value_t = 5)]
    pub warmup: usize,

    /// A file to append JSON lines to, each as soon as its run is done.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Leaves out what does not fit into this time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget_seconds: Option<f64>,

    /// Shows the models and precisions, and measures nothing.
    #[arg(long)]
    pub list: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BackendChoice {
    Flex,
    #[cfg(feature = "vulkan")]
    Vulkan,
    #[cfg(feature = "cuda")]
    Cuda,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SizeChoice {
    /// As the model is used.
    Full,
    /// So that it trains on a CPU in seconds, with the same layers.
    Tiny,
}

impl SizeChoice {
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Tiny => "tiny",
        }
    }
}

impl From<SizeChoice> for zoo::Size {
    fn from(size: SizeChoice) -> Self {
        match size {
            SizeChoice::Full => Self::Full,
            SizeChoice::Tiny => Self::Tiny,
        }
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
            (&["--models", "vgg"], "unknown `vgg`"),
            (&["--list", "table", "a.jsonl"], "cannot be used with"),
        ] {
            let arguments = ["bench"].iter().chain(arguments);
            let error = Args::try_parse_from(arguments).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
