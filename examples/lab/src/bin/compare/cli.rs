//! The command line.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Parser;
use lab::{choice::Choice, cli::Backend, precision::Precision};
use zoo::Size;

/// Trains a model with the same seed in several precisions, and says which one pays off.
#[derive(Parser)]
pub struct Args {
    /// The model to train. Numbers of its configuration can be replaced, as in `gpt:width=64,batch_size=16`.
    #[arg(long, value_name = "NAME[:FIELD=NUMBER,..]")]
    pub model: Choice,

    /// The size of the model: `full` as published, `tiny` to train on a CPU in seconds. By default `tiny` on the CPU,
    /// else `full`.
    #[arg(long)]
    size: Option<Size>,

    /// The backend to compute on.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: Backend,

    /// The precisions; f32, amp-bf16 and amp-f16 by default. Without f32 there is nothing to compare with.
    #[arg(long, value_enum, num_args = 1..)]
    pub precision: Vec<Precision>,

    #[arg(long, default_value = "5")]
    pub epochs: NonZeroUsize,

    /// The number of steps per epoch; the model is validated after each epoch.
    #[arg(long, default_value = "100", value_name = "STEPS")]
    pub steps_per_epoch: NonZeroUsize,

    /// The number of items to validate on, rounded up to whole batches.
    #[arg(long, default_value = "256", value_name = "ITEMS")]
    pub validation_items: NonZeroUsize,

    #[arg(long, default_value_t = zoo::LEARNING_RATE, value_name = "RATE")]
    pub learning_rate: f64,

    /// The seed of the initial weights and the batches.
    #[arg(long, default_value_t = 42, value_parser = clap::value_parser!(u32).range(..1 << 31))]
    pub seed: u32,

    /// The number of seeds that F32 is trained with, counted from `--seed`: how far those runs end apart is the noise.
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..1 << 16))]
    pub seeds: u32,

    /// The folder for the results; `target/compare/<model>` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    pub fn size(&self) -> Size {
        self.size.unwrap_or(self.backend.usual_size())
    }

    pub fn batch_size(&self) -> usize {
        self.model.batch_size(self.size())
    }

    /// The chosen precisions in the order of [`Precision::ALL`], each once.
    pub fn precisions(&self) -> Vec<Precision> {
        if self.precision.is_empty() {
            return Precision::MAIN.into();
        }
        let chosen = |precision: &Precision| self.precision.contains(precision);
        Precision::ALL.into_iter().filter(chosen).collect()
    }

    pub fn out(&self) -> PathBuf {
        let default = || PathBuf::from("target/compare").join(self.model.model.name);
        self.out.clone().unwrap_or_else(default)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(arguments: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(["compare"].into_iter().chain(arguments.split_whitespace()))
    }

    #[test]
    fn refuses_what_cannot_be_trained_and_says_what_can() {
        Args::command().debug_assert();
        for (arguments, reason) in [
            ("--model resnet81", "resnet18"),
            ("--model mlp --precision f64", "amp-bf16"),
            ("--model mlp --epochs 0", "zero"),
            ("--model mlp --seeds 0", "1.."),
            ("--model mlp:width", "field=number"),
            (
                "--model mlp:depth=3",
                "mlp has no number `depth`; it has: batch_size",
            ),
            ("", "--model"),
        ] {
            let error = parsed(arguments).err().unwrap().to_string();
            assert!(error.contains(reason), "{arguments}: {error}");
        }
    }

    #[test]
    fn a_cpu_trains_the_tiny_model_by_default() {
        let args = parsed("--model gpt").unwrap();
        assert_eq!((args.size(), args.batch_size()), (Size::Tiny, 4));
        assert_eq!(args.precisions(), Precision::MAIN);
        assert_eq!(args.out(), PathBuf::from("target/compare/gpt"));
        let args = parsed("--model gpt:batch_size=3 --size full --precision o2 f32").unwrap();
        assert_eq!((args.size(), args.batch_size()), (Size::Full, 3));
        assert_eq!(args.precisions(), [Precision::F32, Precision::O2]);
    }
}
