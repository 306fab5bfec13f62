//! The runs of F32, which the others are judged by.

use super::{
    Judgement,
    trouble::{ending, non_finite},
    yardstick::Yardstick,
};
use crate::{
    precision::Precision,
    run::{Outcome, Run, Validation},
};

pub struct Baseline<'a> {
    /// One for each seed; the first seed is that of the other precisions.
    runs: Vec<&'a Run>,
    loss_ranks: bool,
}

/// What a number is in the fewest and in the most of F32's runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub least: f64,
    pub most: f64,
}

impl<'a> Baseline<'a> {
    pub fn new(runs: Vec<&'a Run>, loss_ranks: bool) -> Self {
        Self { runs, loss_ranks }
    }

    /// The run with the seed of the other precisions.
    pub fn first(&self) -> Option<&'a Run> {
        self.runs.first().copied()
    }

    /// `None` if the first run did not come to a finite end.
    pub fn yardstick(&self) -> Option<Yardstick> {
        final_loss(self.first()?)?;
        Yardstick::new(self.runs.iter().filter_map(|run| final_loss(run)).collect())
    }

    /// Whether the first run came to a loss that is lower than chance makes it.
    pub fn learned(&self) -> bool {
        let fell = |run: &Run| Some(run.record.validations.first()?.loss - final_loss(run)?);
        let fell = self.first().and_then(fell);
        let yardstick = self.yardstick();
        yardstick.is_some_and(|yardstick| fell.is_some_and(|fell| fell > yardstick.noise))
    }

    /// Over the runs that came to their end; `None` if none of them has the number.
    pub fn range(&self, number: impl Fn(&Run) -> Option<f64>) -> Option<Range> {
        let finished = self
            .runs
            .iter()
            .filter(|run| run.outcome == Outcome::Finished);
        let numbers: Vec<f64> = finished.filter_map(|run| number(run)).collect();
        Some(Range {
            least: numbers.iter().copied().reduce(f64::min)?,
            most: numbers.iter().copied().reduce(f64::max)?,
        })
    }

    /// What the runs are worth as a baseline; `None` if there are none.
    pub fn judge(&self) -> Option<Judgement> {
        let run = self.first()?;
        let mut because = Vec::new();
        let headline = match (final_loss(run).and(run.final_validation()), self.loss_ranks) {
            (None, _) => {
                because.push(ending(run));
                "went wrong itself, so there is nothing to judge by."
            }
            (Some(last), false) => {
                because.push(losses(run, last));
                "trained to the end."
            }
            (Some(last), true) if self.learned() => {
                because.push(losses(run, last));
                because.extend(self.yardstick().map(|yardstick| yardstick.said()));
                "learned."
            }
            (Some(last), true) => {
                because.push(losses(run, last));
                because.push("More epochs or another learning rate may help.".to_owned());
                "did not learn, so that there is nothing to judge by."
            }
        };
        because.extend(non_finite(&run.record.events));
        for other in self.runs[1..]
            .iter()
            .filter(|run| run.outcome != Outcome::Finished)
        {
            because.push(format!("Seed {} went wrong. {}", other.seed, ending(other)));
            because.extend(non_finite(&other.record.events));
        }
        Some(Judgement {
            precision: Precision::F32,
            headline: headline.to_owned(),
            because,
        })
    }
}

/// Of the trained model; `None` if the run did not come to a finite end.
pub fn final_loss(run: &Run) -> Option<f64> {
    let validation = run.final_validation()?;
    Some(validation.loss).filter(|loss| loss.is_finite())
}

fn losses(run: &Run, last: &Validation) -> String {
    let first = run
        .record
        .validations
        .first()
        .map_or(f64::NAN, |first| first.loss);
    let accuracy = last
        .accuracy
        .map(|share| format!(", accuracy {:.1} %", 100.0 * share));
    format!(
        "Validation loss {first:.4} before training, {:.4} after it{}.",
        last.loss,
        accuracy.unwrap_or_default()
    )
}
