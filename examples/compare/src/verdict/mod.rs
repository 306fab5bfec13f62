//! What the runs say, in plain words.
//!
//! | question | how it is decided |
//! |---|---|
//! | did it learn? | F32's validation loss fell by more than its runs are apart, and by more than 1 % |
//! | as good? | the final validation loss is above F32's by no more than F32's seeds are apart, or 1 % |
//! | worse? | it is above what 19 in 20 further runs of F32 would come to; in between it is perhaps worse |
//! | faster, smaller? | median step and peak memory are more than 5 % beyond those of all runs of F32 |
//! | worth it? | as good, and faster, or smaller and not slower |
//!
//! * [`baseline`]: the runs of F32; [`yardstick`]: what chance does to their losses; [`comparison`]: a run beside them
//! * [`reasons`]: why a run is not faster
//! * [`trouble`]: what is said of a run that went wrong

mod baseline;
mod comparison;
mod reasons;
mod trouble;
mod yardstick;

use std::fmt;

use serde::Serialize;

use self::{baseline::Baseline, comparison::Comparison};
use crate::{layers::Shapes, machine::Hardware, precision::Precision, run::Run};

/// What is known beside the runs.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Whether a lower loss means a better model.
    pub loss_ranks: bool,
    pub shapes: Shapes,
    /// Of a step of F32, see [`half_batch`](crate::half_batch).
    pub fixed_share: Option<f64>,
    /// F32's products may run on tensor cores, too.
    pub rounds_f32: bool,
}

/// What is said of a precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub precision: Precision,
    /// A sentence whose subject is the precision.
    pub headline: String,
    pub because: Vec<String>,
}

/// In markdown.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{} {}**\n", self.precision, self.headline)?;
        self.because
            .iter()
            .try_for_each(|reason| writeln!(f, "* {reason}"))
    }
}

/// Judges every precision, F32 first. `hardware` tells how the device computes in a precision.
pub fn judge(
    runs: &[Run],
    circumstances: &Circumstances,
    hardware: impl Fn(Precision) -> Hardware,
) -> Vec<Judgement> {
    let (of_f32, others): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.precision == Precision::F32);
    let baseline = Baseline::new(of_f32, circumstances.loss_ranks);
    let compared = others.into_iter().map(|run| {
        let comparison = Comparison {
            run,
            baseline: &baseline,
            circumstances,
            hardware: hardware(run.precision),
        };
        comparison.judge()
    });
    baseline.judge().into_iter().chain(compared).collect()
}

#[cfg(test)]
mod tests;
