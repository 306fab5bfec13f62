//! The runs side by side, to read and to compute with.

use std::fmt;

use serde::Serialize;
use zoo::Size;

use crate::{
    layers::Shapes,
    layout::{Table, cell, mebibytes, seconds},
    plan::Plan,
    precision::Precision,
    run::{Outcome, Run},
    verdict::Judgement,
};

/// In JSON what is missing, and inf and NaN, is `null`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub model: &'static str,
    pub size: &'static str,
    /// Numbers of the configuration that were replaced.
    pub set: Vec<String>,
    pub backend: &'static str,
    pub shapes: Shapes,
    pub batch_size: usize,
    pub epochs: usize,
    pub steps_per_epoch: usize,
    pub learning_rate: f64,
    /// Of a step of F32, see [`half_batch`](crate::half_batch).
    pub fixed_share: Option<f64>,
    pub runs: Vec<Line>,
    pub left_out: Vec<LeftOut>,
    pub verdict: Vec<Judgement>,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub precision: Precision,
    pub seed: u32,
    pub csv: String,
    pub outcome: String,
    pub steps: usize,
    pub seconds_per_step: Option<f64>,
    pub seconds_per_epoch: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    pub train_loss: Option<f64>,
    pub validation_loss: Option<f64>,
    pub validation_accuracy: Option<f64>,
    pub skipped_steps: usize,
    pub final_loss_scale: Option<f64>,
    pub casts_per_step: Option<u64>,
    pub non_finite: Vec<NonFinite>,
}

/// Where something was not finite.
#[derive(Clone, Debug, Serialize)]
pub struct NonFinite {
    pub place: String,
    #[serde(skip)]
    pub in_short: String,
    /// Counted from 1.
    pub first_step: usize,
    pub loss_scale: f64,
    pub steps: usize,
}

/// A precision that the device does not offer.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    pub precision: Precision,
    pub reason: String,
}

impl Line {
    pub fn new(run: &Run, steps_per_epoch: usize) -> Self {
        let validation = run.final_validation();
        let record = &run.record;
        let non_finite = record.events.sightings().into_iter().map(|seen| NonFinite {
            place: seen.first.place.to_string(),
            in_short: seen.first.place.in_short(),
            first_step: seen.first.step,
            loss_scale: seen.first.loss_scale,
            steps: seen.steps,
        });
        Self {
            precision: run.precision,
            seed: run.seed,
            csv: format!("{}.csv", run.name()),
            outcome: match &run.outcome {
                Outcome::Finished => "finished".to_owned(),
                Outcome::NonFinite => "non-finite".to_owned(),
                Outcome::Failed(message) => message.clone(),
            },
            steps: record.steps.len(),
            seconds_per_step: run.seconds_per_step(),
            seconds_per_epoch: run
                .seconds_per_step()
                .map(|step| step * steps_per_epoch as f64),
            peak_memory_bytes: record.peak_memory,
            train_loss: run.train_loss(steps_per_epoch),
            validation_loss: validation.map(|validation| validation.loss),
            validation_accuracy: validation.and_then(|validation| validation.accuracy),
            skipped_steps: run.skipped_steps(),
            final_loss_scale: record.final_loss_scale,
            casts_per_step: record.casts_per_step,
            non_finite: non_finite.collect(),
        }
    }

    fn row(&self, all_steps: usize) -> [String; COLUMNS] {
        let first = self.non_finite.first();
        [
            format!("{}, seed {}", self.precision, self.seed),
            match self.steps == all_steps {
                true => self.steps.to_string(),
                false => format!("{} of {all_steps}", self.steps),
            },
            cell(self.train_loss, |loss| format!("{loss:.4}")),
            cell(self.validation_loss, |loss| format!("{loss:.4}")),
            cell(self.validation_accuracy, |share| {
                format!("{:.1} %", 100.0 * share)
            }),
            cell(self.seconds_per_epoch, seconds),
            cell(self.peak_memory_bytes, |bytes| mebibytes(bytes as f64)),
            self.skipped_steps.to_string(),
            cell(self.final_loss_scale, |scale| scale.to_string()),
            cell(first, |seen| {
                format!("{} in step {}", seen.in_short, seen.first_step)
            }),
        ]
    }
}

const COLUMNS: usize = 10;
const HEADER: [&str; COLUMNS] = [
    "run",
    "steps",
    "train loss",
    "validation loss",
    "accuracy",
    "time per epoch",
    "peak memory",
    "skipped",
    "loss scale",
    "first non-finite",
];

impl Summary {
    pub fn new(plan: &Plan, backend: &'static str, shapes: Shapes, runs: &[Run]) -> Self {
        let Plan {
            entry,
            size,
            set,
            batch_size,
            epochs,
            steps_per_epoch,
            validation_items: _,
            learning_rate,
        } = plan;
        Self {
            model: entry.name,
            size: match size {
                Size::Full => "full",
                Size::Tiny => "tiny",
            },
            set: set.iter().map(ToString::to_string).collect(),
            backend,
            shapes,
            batch_size: *batch_size,
            epochs: *epochs,
            steps_per_epoch: *steps_per_epoch,
            learning_rate: *learning_rate,
            fixed_share: None,
            runs: runs
                .iter()
                .map(|run| Line::new(run, *steps_per_epoch))
                .collect(),
            left_out: Vec::new(),
            verdict: Vec::new(),
        }
    }
}

/// In markdown.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: String = self.set.iter().map(|set| format!(", {set}")).collect();
        writeln!(
            f,
            "## {} ({}{set}) on {}\n",
            self.model, self.size, self.backend
        )?;
        writeln!(
            f,
            "{} parameters, {} in matrices; batches of {}; {} epochs of {} steps; learning rate {:e}\n",
            self.shapes.parameters,
            percent(self.shapes.matrix_share),
            self.batch_size,
            self.epochs,
            self.steps_per_epoch,
            self.learning_rate,
        )?;
        let steps = self.epochs * self.steps_per_epoch;
        let rows = self.runs.iter().map(|line| line.row(steps)).collect();
        writeln!(f, "{}", Table::new(HEADER, rows))?;
        for LeftOut { precision, reason } in &self.left_out {
            writeln!(f, "{precision} left out: {reason}\n")?;
        }
        self.verdict
            .iter()
            .try_for_each(|judgement| writeln!(f, "{judgement}"))
    }
}

/// `83 %`
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
