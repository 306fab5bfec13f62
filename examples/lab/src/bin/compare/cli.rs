//! The command line.

use std::{fmt, num::NonZeroUsize, path::PathBuf, str::FromStr};

use clap::{Parser, ValueEnum, builder::PossibleValuesParser};
use zoo::Size;

use crate::precision::Precision;

/// Trains a model with the same seed in several precisions, and says what came of it.
#[derive(Parser)]
pub struct Args {
    #[arg(long, value_parser = PossibleValuesParser::new(zoo::ZOO.iter().map(|entry| entry.name)))]
    pub model: String,

    /// `tiny` by default on the CPU, else `full`.
    #[arg(long, value_enum)]
    size: Option<SizeChoice>,

    /// Replaces a number of the model's configuration; may be repeated.
    #[arg(long, value_name = "FIELD=NUMBER")]
    pub set: Vec<Replacement>,

    /// What computes.
    #[arg(long, value_enum, default_value = "flex")]
    pub backend: BackendChoice,

    /// The precisions; all that the device offers by default. Without f32 there is nothing to judge by.
    #[arg(long, value_enum, num_args = 1..)]
    pub precision: Vec<Precision>,

    #[arg(long, default_value = "5")]
    pub epochs: NonZeroUsize,

    /// The model is validated after so many.
    #[arg(long, default_value = "100", value_name = "STEPS")]
    pub steps_per_epoch: NonZeroUsize,

    /// Items per step; the model's own number by default.
    #[arg(long, value_name = "ITEMS")]
    batch_size: Option<NonZeroUsize>,

    /// At least so many, in whole batches.
    #[arg(long, default_value = "256", value_name = "ITEMS")]
    pub validation_items: NonZeroUsize,

    #[arg(long, default_value_t = zoo::LEARNING_RATE, value_name = "RATE")]
    pub learning_rate: f64,

    /// Decides the weights at the start and the batches.
    #[arg(long, default_value_t = 42, value_parser = clap::value_parser!(u32).range(..1 << 31))]
    pub seed: u32,

    /// F32 is trained with so many, counted from `--seed`, to see what chance does.
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..1 << 16))]
    pub seeds: u32,

    /// Where results go; `target/compare/<model>` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    pub fn size(&self) -> Size {
        match (self.size, self.backend) {
            (Some(SizeChoice::Tiny), _) | (None, BackendChoice::Flex) => Size::Tiny,
            (Some(SizeChoice::Full), _) => Size::Full,
            #[cfg(any(feature = "vulkan", feature = "cuda"))]
            (None, _) => Size::Full,
        }
    }

    pub fn batch_size(&self, entry: &zoo::Entry) -> usize {
        self.batch_size
            .map_or_else(|| entry.batch_size(self.size()), NonZeroUsize::get)
    }

    /// In the order of [`Precision::ALL`], each once.
    pub fn precisions(&self) -> Vec<Precision> {
        let asked =
            |precision: &Precision| self.precision.is_empty() || self.precision.contains(precision);
        Precision::ALL.into_iter().filter(asked).collect()
    }

    pub fn out(&self) -> PathBuf {
        let default = || ["target", "compare", &self.model].iter().collect();
        self.out.clone().unwrap_or_else(default)
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BackendChoice {
    Flex,
    #[cfg(feature = "vulkan")]
    Vulkan,
    #[cfg(feature = "cuda")]
    Cuda,
}

#[derive(Clone, Copy, ValueEnum)]
enum SizeChoice {
    /// As the model is used.
    Full,
    /// So that it trains on a CPU in seconds, with the same layers.
    Tiny,
}

/// A number of a model's configuration and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub field: String,
    pub number: usize,
}

/// As it is written.
impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, number } = self;
        write!(f, "{field}={number}")
    }
}

impl FromStr for Replacement {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = text
            .split_once('=')
            .and_then(|(field, number)| Some((field.to_owned(), number.parse().ok()?)));
        match pair {
            Some((field, number)) if number > 0 => Ok(Self { field, number }),
            Some(_) | None => Err("expected FIELD=NUMBER, the number from 1"),
        }
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
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn refuses_what_cannot_be_trained_and_says_what_can() {
        for (arguments, reason) in [
            ("--model resnet81", "'resnet18'"),
            ("--model mlp --precision f64", "bf16"),
            ("--model mlp --epochs 0", "zero"),
            ("--model mlp --seeds 0", "1.."),
            ("--model mlp --set width", "FIELD=NUMBER"),
            ("--model mlp --set width=0", "from 1"),
            ("", "--model"),
        ] {
            let error = parsed(arguments).err().unwrap().to_string();
            assert!(error.contains(reason), "{arguments}: {error}");
        }
    }

    #[test]
    fn a_cpu_trains_the_tiny_model_in_all_precisions_unless_told_otherwise() {
        let args = parsed("--model gpt").unwrap();
        assert_eq!(args.size(), Size::Tiny);
        assert_eq!(args.batch_size(zoo::entry("gpt").unwrap()), 4);
        assert_eq!(args.precisions(), Precision::ALL);
        assert_eq!(args.out(), PathBuf::from("target/compare/gpt"));

        let args = parsed("--model gpt --size full --batch-size 3 --precision f16 f32 f16 --out x");
        let args = args.unwrap();
        assert_eq!(args.size(), Size::Full);
        assert_eq!(args.batch_size(zoo::entry("gpt").unwrap()), 3);
        assert_eq!(args.precisions(), [Precision::F32, Precision::F16]);
        assert_eq!(args.out(), PathBuf::from("x"));
    }
}
