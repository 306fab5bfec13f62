//! The runs of a session: models x batch sizes x precisions, as a list.

use std::fmt;

use lab::{
    choice::{Choice, ItemShape},
    entry::{Entry, OURS},
    machine::Machine,
    precision::Precision,
};
use zoo::Size;

use crate::cli::RunArgs;

/// One line of the result, still to be measured.
#[derive(Clone, Debug)]
pub struct Run {
    pub choice: Choice,
    pub size: Size,
    pub batch_size: usize,
    pub precision: Precision,
}

impl Run {
    /// The entry of the run before it is measured.
    pub fn entry(&self, machine: &Machine, warmup: usize) -> Entry {
        let Self {
            choice,
            size,
            batch_size,
            precision,
        } = self;
        Entry {
            model: choice.model.name.to_owned(),
            size: size.name().to_owned(),
            batch_size: *batch_size,
            precision: precision.name().to_owned(),
            warmup,
            device: machine.device.clone(),
            backend: machine.backend.to_owned(),
            framework: OURS.to_owned(),
            // All packages of the workspace have one version.
            version: env!("CARGO_PKG_VERSION").to_owned(),
            params: None,
            shape: Some([vec![*batch_size], choice.visit(*size, ItemShape)].concat()),
            steps: 0,
            step_ms_median: None,
            step_ms_p10: None,
            step_ms_p90: None,
            items_per_s: None,
            peak_memory_bytes: None,
            loss_first: None,
            loss_last: None,
            skipped_steps: None,
            loss_scale: None,
            error: None,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (precision, choice) = (self.precision.name(), &self.choice.text);
        write!(f, "{choice} {} x{} {precision}", self.size, self.batch_size)
    }
}

/// Lists the runs in the order of the command line: precision varies fastest, then batch size.
///
/// The batch size in a model's choice overrides `--batch-size`, which overrides the zoo's.
pub fn plan(args: &RunArgs) -> Vec<Run> {
    let choices = if args.models.is_empty() {
        zoo::ZOO.iter().map(Choice::plain).collect()
    } else {
        args.models.clone()
    };
    let precisions = if args.precision.is_empty() {
        &Precision::ALL
    } else {
        args.precision.as_slice()
    };
    let mut runs = Vec::new();
    for choice in choices {
        let batch_sizes: Vec<usize> = if choice.batch_size.is_some() || args.batch_size.is_empty() {
            vec![choice.batch_size(args.size())]
        } else {
            args.batch_size.iter().map(|size| size.get()).collect()
        };
        for batch_size in batch_sizes {
            runs.extend(precisions.iter().map(|precision| Run {
                choice: choice.clone(),
                size: args.size(),
                batch_size,
                precision: *precision,
            }));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Args;

    fn planned(arguments: &str) -> Vec<String> {
        let arguments = ["bench"].into_iter().chain(arguments.split_whitespace());
        let args = Args::parse_from(arguments).run;
        plan(&args).iter().map(Run::to_string).collect()
    }

    #[test]
    fn precision_moves_fastest_and_a_models_own_batch_size_overrides_the_others() {
        assert_eq!(
            planned(
                "--models gpt:batch_size=2 mlp --batch-size 4 8 --precision f32 o2 --size tiny"
            ),
            [
                "gpt:batch_size=2 tiny x2 f32",
                "gpt:batch_size=2 tiny x2 o2",
                "mlp tiny x4 f32",
                "mlp tiny x4 o2",
                "mlp tiny x8 f32",
                "mlp tiny x8 o2",
            ]
        );
    }

    #[test]
    fn everything_is_measured_by_default() {
        let all = planned("");
        assert_eq!(all.len(), zoo::ZOO.len() * Precision::ALL.len());
        assert_eq!(all[0], "mlp tiny x8 f32"); // the backend is the CPU
        assert_eq!(planned("--size full")[0], "mlp full x256 f32");
        assert_eq!(planned("--backend cuda")[0], "mlp full x256 f32");
    }
}
