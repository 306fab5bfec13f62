//! The command line.

use std::path::PathBuf;

use clap::{Parser, builder::PossibleValuesParser};

use crate::subject;

/// Measures the memory, the traffic, the launches and the gradient error of training steps in BF16 and F16, beside F32
/// and PyTorch.
#[derive(Parser)]
pub struct Args {
    /// The models of the zoo and the blocks to measure; all by default.
    #[arg(long, visible_alias = "subjects", num_args = 1.., value_name = "NAME", value_parser = names())]
    pub subject: Vec<String>,

    /// The folder that `examples/lab/pytorch/footprint.py` wrote.
    #[arg(long, value_name = "DIR")]
    pub pytorch: Option<PathBuf>,

    /// Prints the tables in markdown.
    #[arg(long)]
    pub markdown: bool,

    /// A markdown page: what follows its line `<!-- footprint -->` is replaced by the tables.
    #[arg(long, value_name = "FILE")]
    pub into: Option<PathBuf>,

    /// Prints each subject's ops with their launches and traffic as well.
    #[arg(long)]
    pub ops: bool,

    /// A file to write all numbers to.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Args {
    /// Returns the subjects to measure, in the order of the tables.
    pub fn subjects(&self) -> impl Iterator<Item = &'static str> {
        let chosen =
            |name: &&str| self.subject.is_empty() || self.subject.iter().any(|it| it == name);
        subject::names().into_iter().filter(chosen)
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(subject::names())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_names_the_subjects() {
        Args::command().debug_assert();
        let error = Args::try_parse_from(["footprint", "--subject", "lsmt"])
            .err()
            .unwrap();
        assert!(error.to_string().contains("lstm-block"), "{error}");
        let args = Args::try_parse_from(["footprint", "--subject", "qkv", "mlp"]).unwrap();
        assert_eq!(args.subjects().collect::<Vec<_>>(), ["mlp", "qkv"]);
    }
}
