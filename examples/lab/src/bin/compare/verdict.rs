//! A run beside those of F32.

use super::{
    Circumstances, Judgement,
    baseline::{Baseline, Range, final_loss},
    reasons::why_not_faster,
    trouble::{ending, non_finite},
    yardstick::{Measured, Yardstick},
};
use crate::{
    layout::{mebibytes, seconds},
    machine::Hardware,
    run::{Outcome, Run},
    summary::percent,
};

/// Less than this is no difference in time or memory: medians of one and the same run differ as much.
const NOTICEABLE: f64 = 0.05;

/// If F32's own runs differ by more than this, what lies among them is not the same but unknown.
const NOISY: f64 = 0.25;

pub struct Comparison<'a> {
    pub run: &'a Run,
    pub baseline: &'a Baseline<'a>,
    pub circumstances: &'a Circumstances,
    pub hardware: Hardware,
}

/// A time or a size beside those of F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Less,
    Same,
    More,
    Unknown,
}

impl Change {
    fn of(value: Option<f64>, baseline: Option<Range>) -> Self {
        match (value, baseline) {
            (Some(value), Some(range)) if value < range.least * (1.0 - NOTICEABLE) => Self::Less,
            (Some(value), Some(range)) if value > range.most * (1.0 + NOTICEABLE) => Self::More,
            (Some(_), Some(range)) if is_noisy(range) => Self::Unknown,
            (Some(_), Some(_)) => Self::Same,
            (None, _) | (_, None) => Self::Unknown,
        }
    }
}

fn is_noisy(Range { least, most }: Range) -> bool {
    most > least * (1.0 + NOISY)
}

fn bytes(run: &Run) -> Option<f64> {
    run.record.peak_memory.map(|bytes| bytes as f64)
}

impl Comparison<'_> {
    pub fn judge(&self) -> Judgement {
        let (headline, because) = match self.run.outcome {
            Outcome::Finished => (self.headline(), self.because()),
            Outcome::NonFinite | Outcome::Failed(_) => (
                "cannot train this model as it is set up here.".to_owned(),
                self.because_of_trouble(),
            ),
        };
        Judgement {
            precision: self.run.precision,
            headline,
            because,
        }
    }

    fn headline(&self) -> String {
        let (quality, time, memory) = (self.quality(), self.time(), self.memory());
        let quality_word = match quality {
            Some(Measured::AsGood) => "as good",
            Some(Measured::Undecided) => "perhaps worse",
            Some(Measured::Worse) => "worse",
            None => "of unknown quality",
        };
        let time_word = match time {
            Change::Less => Some("faster"),
            Change::Same => Some("as fast"),
            Change::More => Some("slower"),
            Change::Unknown => None,
        };
        let memory_word = match memory {
            Change::Less => Some("smaller"),
            Change::Same => Some("as large"),
            Change::More => Some("larger"),
            Change::Unknown => None,
        };
        let words = [Some(quality_word), time_word, memory_word];
        let words = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let gains = match (time, memory) {
            (Change::Less, _) | (Change::Same | Change::Unknown, Change::Less) => Some(true),
            (Change::Same | Change::More, _) => Some(false),
            (Change::Unknown, _) => None,
        };
        match (quality, gains) {
            (Some(Measured::AsGood), Some(true)) => format!("pays off here: {words}."),
            (Some(Measured::Worse), _) | (_, Some(false)) => {
                format!("does not pay off here: {words}.")
            }
            (Some(Measured::AsGood), None)
            | (Some(Measured::Undecided) | None, Some(true) | None) => format!("is {words}."),
        }
    }

    fn because(&self) -> Vec<String> {
        let record = &self.run.record;
        let mut said = vec![self.quality_said()];
        said.extend(self.time_said());
        said.extend(self.memory_said());
        said.extend(non_finite(&record.events));
        if let (skipped @ 1.., Some(scale)) = (self.run.skipped_steps(), record.final_loss_scale) {
            let steps = record.steps.len();
            said.push(format!(
                "Steps skipped: {skipped} of {steps}; the loss scale ended at {scale}."
            ));
        }
        said
    }

    fn because_of_trouble(&self) -> Vec<String> {
        let mut said = vec![ending(self.run)];
        said.extend(non_finite(&self.run.record.events));
        let baseline = self.baseline.first().map(|run| match run.outcome {
            Outcome::Finished => "F32 came to the end with the same batches: it is the precision.",
            Outcome::NonFinite | Outcome::Failed(_) => {
                "F32 went wrong as well: it is not the precision."
            }
        });
        said.extend(baseline.map(str::to_owned));
        said
    }

    /// `None` if the loss does not tell, or there is nothing to compare with.
    fn quality(&self) -> Option<Measured> {
        if !self.circumstances.loss_ranks || !self.baseline.learned() {
            return None;
        }
        let loss = final_loss(self.run).unwrap_or(f64::INFINITY);
        Some(self.baseline.yardstick()?.measure(loss))
    }

    fn time(&self) -> Change {
        Change::of(
            self.run.seconds_per_step(),
            self.baseline.range(Run::seconds_per_step),
        )
    }

    fn memory(&self) -> Change {
        Change::of(bytes(self.run), self.baseline.range(bytes))
    }

    fn quality_said(&self) -> String {
        if !self.circumstances.loss_ranks {
            return "The loss of this model does not tell how good it is.".to_owned();
        }
        let Some(loss) = final_loss(self.run) else {
            return "The validation loss is not finite.".to_owned();
        };
        let Some(Yardstick { losses, bad, .. }) = self.baseline.yardstick() else {
            return format!("Validation loss {loss:.4}; no run of f32 to judge it by.");
        };
        let losses: Vec<String> = losses.iter().map(|loss| format!("{loss:.4}")).collect();
        let losses = format!("Validation loss {loss:.4}, f32 {}", losses.join(", "));
        match (self.quality(), bad) {
            (Some(Measured::Undecided), Some(bad)) => format!(
                "{losses}. By chance 1 in 20 runs of f32 would end above {bad:.4}: more --seeds or epochs would tell."
            ),
            (Some(Measured::Undecided), None) => {
                format!("{losses}. One run does not tell what chance does: more --seeds would.")
            }
            (Some(Measured::Worse), Some(bad)) => {
                format!("{losses}. Fewer than 1 in 20 runs of f32 would end above {bad:.4}.")
            }
            (Some(Measured::AsGood | Measured::Worse) | None, _) => format!("{losses}."),
        }
    }

    fn time_said(&self) -> Vec<String> {
        let time = self.run.seconds_per_step();
        let (Some(time), Some(range)) = (time, self.baseline.range(Run::seconds_per_step)) else {
            return Vec::new();
        };
        let mut said = vec![format!(
            "{} per step, f32 {}{}.",
            seconds(time),
            between(range, seconds),
            compared(self.time(), time, range)
        )];
        let why = why_not_faster(
            self.circumstances,
            self.hardware,
            self.run.record.casts_per_step,
        );
        if is_noisy(range) {
            let percent = percent(NOISY);
            said.push(format!(
                "F32's own runs differ by more than {percent}, so this says little."
            ));
        }
        match (self.hardware, self.time()) {
            (Hardware::Emulated, _) | (_, Change::Same | Change::More) => said.extend(why),
            (Hardware::Plain | Hardware::Accelerated, Change::Less | Change::Unknown) => {}
        }
        said
    }

    fn memory_said(&self) -> Option<String> {
        let (peak, range) = (bytes(self.run)?, self.baseline.range(bytes)?);
        Some(format!(
            "Peak memory {}, f32 {}{}.",
            mebibytes(peak),
            between(range, mebibytes),
            compared(self.memory(), peak, range)
        ))
    }
}

/// `1.2 s`, or `1.2 s to 1.4 s`
fn between(Range { least, most }: Range, text: impl Fn(f64) -> String) -> String {
    match (text(least), text(most)) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    }
}

/// How many times the nearest of F32's runs.
fn compared(change: Change, value: f64, Range { least, most }: Range) -> String {
    match change {
        Change::Less => format!(": {:.2} times", value / least),
        Change::More => format!(": {:.2} times", value / most),
        Change::Same | Change::Unknown => String::new(),
    }
}
