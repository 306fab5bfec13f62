//! The verdict on each precision, in plain words.
//!
//! | question | rule |
//! |---|---|
//! | how much is noise? | how far F32's seeds end apart, and at least 1 % of its loss |
//! | did it learn? | F32's validation loss fell by more than the noise |
//! | as good? | the final validation loss is above F32's with the same seed by no more than the noise |
//! | worse? | by more than twice the noise of at least three seeds; in between it is perhaps worse |
//! | faster, smaller? | median step and peak memory are more than 5 % below those of all runs of F32 |
//! | does it pay off? | as good, and faster, or smaller and not slower |
//!
//! Twice the spread of three seeds is about where fewer than 1 in 20 further runs would end: for normally distributed
//! losses the limit is 2.92 · √(4/3) = 3.4 standard deviations, and three draws are 1.7 of them apart on average.

use std::{cmp::Ordering, fmt};

use burn::tensor::DType;
use lab::{
    precision::Precision,
    statistics::{extremes, mean},
    table::{mebibytes, seconds},
};
use serde::Serialize;

use crate::{
    run::{Outcome, Run},
    speed::Model,
};

/// The smallest difference in time or memory that counts: medians of equal runs differ by as much.
const NOTICEABLE: f64 = 0.05;

/// The smallest noise, as a share of F32's loss: two seeds may end close to each other by chance.
const LEAST_NOISE: f64 = 0.01;

/// The verdict on a precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub precision: &'static str,
    /// A sentence whose subject is the precision.
    pub headline: String,
    pub because: Vec<String>,
}

/// Formats the verdict in markdown.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{} {}**\n", self.precision, self.headline)?;
        let mut reasons = self.because.iter();
        reasons.try_for_each(|reason| writeln!(f, "* {reason}"))
    }
}

/// Judges every precision, F32 first. `accelerates` says whether the device has units for a dtype.
pub fn judge(runs: &[Run], model: &Model, accelerates: impl Fn(DType) -> bool) -> Vec<Verdict> {
    let (of_f32, others): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.precision == Precision::F32);
    let baseline = Baseline::new(of_f32);
    let compared = others.into_iter().map(|run| {
        let is_f16 = run.precision.name().starts_with("amp-f16");
        let dtype = if is_f16 { DType::F16 } else { DType::BF16 };
        baseline.compare(run, model, accelerates(dtype))
    });
    let of_f32 = baseline.judge(model.loss_ranks);
    of_f32.into_iter().chain(compared).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quality {
    AsGood,
    PerhapsWorse,
    Worse,
}

/// The runs of F32, one for each seed; the first seed is that of the other precisions.
struct Baseline<'a> {
    runs: Vec<&'a Run>,
    /// The final losses of all runs; empty if the first run has none.
    losses: Vec<f64>,
    noise: f64,
    learned: bool,
}

impl<'a> Baseline<'a> {
    fn new(runs: Vec<&'a Run>) -> Self {
        let first = runs.first().and_then(|run| run.final_loss());
        let losses: Vec<f64> = runs.iter().filter_map(|run| run.final_loss()).collect();
        let losses = first.map(|_| losses).unwrap_or_default();
        let spread = extremes(losses.iter().copied()).map_or(0.0, |(least, most)| most - least);
        let noise = spread.max(LEAST_NOISE * mean(&losses).unwrap_or(0.0).abs());
        let fell = |last| runs[0].validations[0].loss - last;
        Self {
            learned: first.is_some_and(|last| fell(last) > noise),
            runs,
            losses,
            noise,
        }
    }

    /// The verdict on F32 itself; `None` without a run.
    fn judge(&self, loss_ranks: bool) -> Option<Verdict> {
        let (first, noise, seeds) = (self.runs.first()?, self.noise, self.losses.len());
        let mut because = vec![ending(first)];
        let headline = if seeds == 0 {
            "went wrong itself, so there is nothing to compare with."
        } else if !loss_ranks {
            "trained to the end."
        } else if self.learned {
            because.push(format!(
                "Losses differ by chance: {noise:.4} is noise, as {seeds} seeds differ by that, or at least 1 %."
            ));
            "learned."
        } else {
            because.push("More epochs or another learning rate may help.".to_owned());
            "did not learn, so there is nothing to compare with."
        };
        because.extend(first.non_finite.iter().map(ToString::to_string));
        for other in &self.runs[1..] {
            if other.outcome != Outcome::Finished {
                because.push(format!("Seed {} went wrong. {}", other.seed, ending(other)));
                because.extend(other.non_finite.iter().map(ToString::to_string));
            }
        }
        Some(Verdict {
            precision: Precision::F32.name(),
            headline: headline.to_owned(),
            because,
        })
    }

    /// The verdict on a run in another precision.
    fn compare(&self, run: &Run, model: &Model, accelerated: bool) -> Verdict {
        let mut because = vec![ending(run)];
        let mut headline = "cannot train this model as it is set up here.".to_owned();
        if run.outcome == Outcome::Finished {
            let quality = self.quality(run, model.loss_ranks, &mut because);
            let time = self.change(run, Run::seconds_per_step);
            because.extend(time.map(|it| it.sentence("per step", seconds)));
            let time = time.map(|it| it.order);
            if model.machine.emulates_half || time.is_some_and(Ordering::is_ge) {
                because.extend(model.why_not_faster(accelerated, run.casts_per_step));
            }
            let memory = self.change(run, |run| run.peak_memory.map(|bytes| bytes as f64));
            because.extend(memory.map(|it| it.sentence("at most in memory", mebibytes)));
            headline = self::headline(quality, time, memory.map(|it| it.order));
        } else if let Some(f32) = self.runs.first() {
            because.push(if f32.outcome == Outcome::Finished {
                "F32 finished with the same batches: it is the precision.".to_owned()
            } else {
                "F32 went wrong as well: it is not the precision.".to_owned()
            });
        }
        because.extend(run.non_finite.iter().map(ToString::to_string));
        if let (skipped @ 1.., Some(scale)) = (run.skipped_steps(), run.final_loss_scale) {
            let steps = run.steps.len();
            because.push(format!(
                "Skipped steps: {skipped} of {steps}; the loss scale ended at {scale}."
            ));
        }
        Verdict {
            precision: run.precision.name(),
            headline,
            because,
        }
    }

    /// The quality of a finished run, explained; `None` if it is unknown.
    fn quality(&self, run: &Run, ranks: bool, because: &mut Vec<String>) -> Option<Quality> {
        if !ranks {
            because.push("The loss of this model does not show how good it is.".to_owned());
        }
        if !ranks || !self.learned {
            return None;
        }
        let above = run
            .final_loss()
            .map_or(f64::INFINITY, |loss| loss - self.losses[0]);
        let (quality, remark) = if above <= self.noise {
            (Quality::AsGood, "not above the noise")
        } else if above <= 2.0 * self.noise || (self.losses.len() < 3 && above.is_finite()) {
            let remark =
                "above the noise, but perhaps by chance; more --seeds or epochs would show";
            (Quality::PerhapsWorse, remark)
        } else {
            (Quality::Worse, "more than twice the noise")
        };
        because.push(format!("That is {above:+.4} compared with f32: {remark}."));
        Some(quality)
    }

    /// Compares a number of a run with those of F32's finished runs; `None` if there are none.
    fn change(&self, run: &Run, number: fn(&Run) -> Option<f64>) -> Option<Change> {
        let finished = self
            .runs
            .iter()
            .filter(|it| it.outcome == Outcome::Finished);
        let (least, most) = extremes(finished.filter_map(|run| number(run)))?;
        let value = number(run)?;
        let order = if value < least * (1.0 - NOTICEABLE) {
            Ordering::Less
        } else if value > most * (1.0 + NOTICEABLE) {
            Ordering::Greater
        } else {
            Ordering::Equal
        };
        Some(Change {
            value,
            least,
            most,
            order,
        })
    }
}

/// A time or a size, and the range of those of F32.
#[derive(Clone, Copy)]
struct Change {
    value: f64,
    least: f64,
    most: f64,
    order: Ordering,
}

impl Change {
    fn sentence(&self, what: &str, text: fn(f64) -> String) -> String {
        let [value, least, most] = [self.value, self.least, self.most].map(text);
        let range = if least == most {
            least
        } else {
            format!("{least} to {most}")
        };
        let times = match self.order {
            Ordering::Less => format!(": {:.2} times", self.value / self.least),
            Ordering::Equal => String::new(),
            Ordering::Greater => format!(": {:.2} times", self.value / self.most),
        };
        format!("{value} {what}, f32 {range}{times}.")
    }
}

fn headline(quality: Option<Quality>, time: Option<Ordering>, memory: Option<Ordering>) -> String {
    let word = |order, [less, equal, greater]: [&'static str; 3]| match order {
        Ordering::Less => less,
        Ordering::Equal => equal,
        Ordering::Greater => greater,
    };
    let quality_word = match quality {
        Some(Quality::AsGood) => "as good",
        Some(Quality::PerhapsWorse) => "perhaps worse",
        Some(Quality::Worse) => "worse",
        None => "of unknown quality",
    };
    let mut words = vec![quality_word];
    words.extend(time.map(|order| word(order, ["faster", "as fast", "slower"])));
    words.extend(memory.map(|order| word(order, ["smaller", "as large", "larger"])));
    let words = words.join(", ");
    let gains = match (time, memory) {
        (Some(Ordering::Less), _) => Some(true),
        (Some(Ordering::Equal) | None, Some(Ordering::Less)) => Some(true),
        (None, _) => None,
        (Some(_), _) => Some(false),
    };
    match (quality, gains) {
        (Some(Quality::AsGood), Some(true)) => format!("pays off here: {words}."),
        (Some(Quality::Worse), _) | (_, Some(false)) => format!("does not pay off here: {words}."),
        _ => format!("is {words}."),
    }
}

/// Describes how a run ended.
fn ending(run: &Run) -> String {
    let steps = run.steps.len();
    match &run.outcome {
        Outcome::NonFinite => {
            format!("Stopped after step {steps}: parameters are not finite any more.")
        }
        Outcome::Failed(message) => format!("Failed in step {}: {message}.", steps + 1),
        Outcome::Finished => {
            let [first, last] = [run.validations.first(), run.validations.last()];
            let loss = [first, last].map(|it| it.map_or(f64::NAN, |it| it.loss));
            let accuracy = last.and_then(|last| last.accuracy);
            let accuracy = accuracy.map(|share| format!(", accuracy {:.1} %", 100.0 * share));
            format!(
                "Validation loss {:.4} before training, {:.4} after it{}.",
                loss[0],
                loss[1],
                accuracy.unwrap_or_default()
            )
        }
    }
}

#[cfg(test)]
mod tests;
