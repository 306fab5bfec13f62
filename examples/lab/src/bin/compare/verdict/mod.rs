//! The verdict on each precision, in plain words.
//!
//! | question | rule |
//! |---|---|
//! | how much is noise? | how far F32's seeds end apart, and at least 1 % of its loss |
//! | did it learn? | F32's validation loss fell by more than the noise |
//! | as good? | the final validation loss is above that of F32's first seed by no more than the noise |
//! | worse? | by more than twice the noise of at least three seeds; in between perhaps, and more `--seeds` would show |
//! | faster, smaller? | median step and peak memory are more than 5 % below those of all runs of F32 |
//! | does it pay off? | as good, and faster, or smaller and not slower |
//!
//! Twice the spread of three seeds is about where fewer than 1 in 20 further runs would end: for normally distributed
//! losses the limit is 2.92 · √(4/3) = 3.4 standard deviations, and three draws are 1.7 of them apart on average.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use lab::{
    precision::Precision,
    statistics::{extremes, mean},
    table::{mebibytes, seconds},
};
use serde::Serialize;

use crate::run::Run;

/// The smallest difference in time or memory that counts: medians of equal runs differ by as much.
const NOTICEABLE: f64 = 0.05;

/// The smallest noise, as a share of F32's loss: two seeds may end close to each other by chance.
const LEAST_NOISE: f64 = 0.01;

const EMULATED: &str = "The CPU emulates half precision: this time says nothing about a GPU.";

/// Words for the quality, time and memory of a run: `Less`, `Equal` and `Greater` than F32's.
const WORDS: [[&str; 3]; 3] = [
    ["as good", "perhaps worse", "worse"],
    ["faster", "as fast", "slower"],
    ["smaller", "as large", "larger"],
];

/// The verdict on a precision.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub precision: &'static str,
    /// A sentence whose subject is the precision.
    pub headline: String,
    pub because: Vec<String>,
}

/// Judges every precision, F32 first. `loss_ranks` says whether a lower loss means a better model.
pub fn judge(runs: &[Run], emulates_half: bool, loss_ranks: bool) -> Vec<Verdict> {
    let is_f32 = |run: &&Run| run.precision == Precision::F32;
    let (of_f32, others): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(is_f32);
    let baseline = Baseline::new(of_f32, loss_ranks);
    let of_f32 = baseline.runs.first().map(|_| baseline.judge(loss_ranks));
    let mut verdicts: Vec<Verdict> = of_f32.into_iter().collect();
    verdicts.extend(
        others
            .iter()
            .map(|run| baseline.compare(run, emulates_half)),
    );
    verdicts
}

/// The runs of F32, one for each seed.
struct Baseline<'a> {
    runs: Vec<&'a Run>,
    /// The final losses of all that finished.
    losses: Vec<f64>,
    noise: f64,
    /// Whether the loss fell, and shows how good the model is.
    learned: bool,
}

impl<'a> Baseline<'a> {
    fn new(runs: Vec<&'a Run>, loss_ranks: bool) -> Self {
        let losses: Vec<f64> = runs.iter().filter_map(|run| run.final_loss()).collect();
        let (least, most) = extremes(losses.iter().copied()).unwrap_or_default();
        let noise = (most - least).max(LEAST_NOISE * mean(&losses).unwrap_or_default().abs());
        let finished = runs.iter().find(|run| run.final_loss().is_some());
        let fell = |run: &&Run| run.validations[0].loss - losses[0] > noise;
        Self {
            learned: loss_ranks && finished.is_some_and(fell),
            runs,
            losses,
            noise,
        }
    }

    /// The verdict on F32 itself.
    fn judge(&self, loss_ranks: bool) -> Verdict {
        let (noise, seeds) = (self.noise, self.losses.len());
        let reason = self.losses.first().map(|loss| {
            format!("Validation loss {loss:.4}; {noise:.4} is noise: {seeds} seeds differ by that, or it is 1 %.")
        });
        let headline = if seeds == 0 {
            "went wrong itself, so there is nothing to compare with."
        } else if !loss_ranks {
            "trained to the end; the loss of this model does not show how good it is."
        } else if self.learned {
            "learned."
        } else {
            "did not learn, so there is nothing to compare with; try more epochs or another learning rate."
        };
        Verdict {
            precision: Precision::F32.name(),
            headline: headline.to_owned(),
            because: reason.into_iter().collect(),
        }
    }

    /// The verdict on a run in another precision.
    fn compare(&self, run: &Run, emulates_half: bool) -> Verdict {
        let mut because = Vec::new();
        let headline = if run.failure.is_none() {
            let bytes = |run: &Run| run.peak_memory.map(|bytes| bytes as f64);
            let comparisons = [
                self.quality(run),
                self.change(run, Run::seconds_per_step, "A step takes", seconds),
                self.change(run, bytes, "Peak memory is", mebibytes),
            ];
            let headline = headline(comparisons.each_ref().map(|it| Some(it.as_ref()?.0)));
            because.extend(comparisons.into_iter().flatten().map(|it| it.1));
            because.extend(emulates_half.then(|| EMULATED.to_owned()));
            headline
        } else {
            let of_f32 = match self.runs.first().map(|f32| &f32.failure) {
                Some(None) => "; f32 can: it is the precision",
                Some(Some(_)) => "; nor can f32: it is not the precision",
                None => "",
            };
            format!("cannot train this model as it is set up here{of_f32}.")
        };
        Verdict {
            precision: run.precision.name(),
            headline,
            because,
        }
    }

    /// The final validation loss; `None` if there is nothing to compare it with.
    fn quality(&self, run: &Run) -> Option<(Ordering, String)> {
        let loss = run.final_validation().filter(|_| self.learned)?.loss;
        let (above, noise) = (loss - self.losses[0], self.noise);
        let is_few = self.losses.len() < 3;
        let order = order(above, noise, if is_few { f64::MAX } else { 2.0 * noise });
        let words = format!("Validation loss {loss:.4}, {above:+.4} compared with f32.");
        Some((order, words))
    }

    /// A number of a finished run; `None` if it or F32's is unknown.
    fn change(
        &self,
        run: &Run,
        number: fn(&Run) -> Option<f64>,
        what: &str,
        text: fn(f64) -> String,
    ) -> Option<(Ordering, String)> {
        let finished = self.runs.iter().filter(|it| it.failure.is_none());
        let of_f32: Vec<f64> = finished.filter_map(|run| number(run)).collect();
        let (value, mean) = (number(run)?, mean(&of_f32)?);
        let (least, most) = extremes(of_f32)?;
        let order = order(value, least * (1.0 - NOTICEABLE), most * (1.0 + NOTICEABLE));
        let (times, [value, mean]) = (value / mean, [value, mean].map(text));
        Some((
            order,
            format!("{what} {value}, {times:.2} times f32's {mean}."),
        ))
    }
}

/// `Equal` between the limits, and `Greater` for NaN.
fn order(value: f64, low: f64, high: f64) -> Ordering {
    match value {
        _ if value < low => Less,
        _ if value <= high => Equal,
        _ => Greater,
    }
}

/// The headline on a finished run, from how its quality, time and memory compare with F32's.
fn headline(orders: [Option<Ordering>; 3]) -> String {
    let [quality, time, memory] = orders;
    let gains = match (time, memory) {
        (Some(Less), _) | (Some(Equal) | None, Some(Less)) => Some(true),
        (None, _) => None,
        _ => Some(false),
    };
    let verb = match (quality, gains) {
        (Some(Less), Some(true)) => "pays off here:",
        (Some(Greater), _) | (_, Some(false)) => "does not pay off here:",
        _ => "is",
    };
    let unknown = quality.is_none().then_some("of unknown quality");
    let words = WORDS.iter().zip(orders);
    let words = words.filter_map(|(words, order)| Some(words[(order? as i8 + 1) as usize]));
    let words: Vec<&str> = unknown.into_iter().chain(words).collect();
    format!("{verb} {}.", words.join(", "))
}

#[cfg(test)]
mod tests;
