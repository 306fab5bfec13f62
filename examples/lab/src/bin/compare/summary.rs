//! The runs side by side, as text and as JSON.

use std::fmt;

use lab::{
    machine::Machine,
    table::{Table, cell, mebibytes, seconds},
};
use serde_json::{Value, json};

use crate::{cli::Args, run::Run, verdict::Verdict};

pub struct Summary<'a> {
    pub args: &'a Args,
    pub machine: &'a Machine,
    /// The number of the model's parameters.
    pub parameters: usize,
    pub runs: &'a [Run],
    pub verdict: Vec<Verdict>,
}

impl Summary<'_> {
    /// `gpt:width=64 (tiny) on flex`
    pub fn title(&self) -> String {
        let (model, size) = (&self.args.model.text, self.args.size());
        format!("{model} ({size}) on {}", self.machine.backend)
    }

    /// Returns the summary as JSON. Missing numbers, inf and NaN are `null`.
    pub fn json(&self) -> Value {
        let args = self.args;
        let steps_per_epoch = args.steps_per_epoch.get();
        let run = |run: &Run| {
            let (step, validation) = (run.seconds_per_step(), run.final_validation());
            json!({
                "precision": run.precision.name(),
                "seed": run.seed,
                "csv": run.name() + ".csv",
                "failure": run.failure,
                "steps": run.steps.len(),
                "seconds_per_step": step,
                "seconds_per_epoch": step.map(|step| step * steps_per_epoch as f64),
                "peak_memory_bytes": run.peak_memory,
                "train_loss": run.train_loss(steps_per_epoch),
                "validation_loss": validation.map(|it| it.loss),
                "validation_accuracy": validation.and_then(|it| it.accuracy),
                "skipped_steps": run.skipped_steps(),
                "final_loss_scale": run.final_loss_scale,
                "non_finite": run.non_finite,
            })
        };
        json!({
            "model": args.model.text,
            "size": args.size().name(),
            "backend": self.machine.backend,
            "parameters": self.parameters,
            "batch_size": args.batch_size(),
            "epochs": args.epochs,
            "steps_per_epoch": steps_per_epoch,
            "learning_rate": args.learning_rate,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "verdict": self.verdict,
        })
    }

    fn row(&self, run: &Run) -> [String; 9] {
        let per_epoch = self.args.steps_per_epoch.get();
        let loss = |loss| cell(loss, |loss: f64| format!("{loss:.4}"));
        let validation = run.final_validation();
        let accuracy = validation.and_then(|it| it.accuracy);
        let time = run.seconds_per_step().map(|step| step * per_epoch as f64);
        [
            run.name(),
            run.steps.len().to_string(),
            loss(run.train_loss(per_epoch)),
            loss(validation.map(|it| it.loss)),
            cell(accuracy, |share| format!("{:.1} %", 100.0 * share)),
            cell(time, seconds),
            cell(run.peak_memory, |bytes| mebibytes(bytes as f64)),
            run.skipped_steps().to_string(),
            cell(run.final_loss_scale, |scale| scale.to_string()),
        ]
    }
}

/// Formats the summary for a terminal, and with `{:#}` in Markdown.
impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let markdown = f.alternate();
        let (heading, bold) = if markdown { ("## ", "**") } else { ("", "") };
        writeln!(f, "{heading}{}\n", self.title())?;
        let args = self.args;
        let (parameters, items, epochs) = (self.parameters, args.batch_size(), args.epochs);
        let (steps, rate) = (args.steps_per_epoch, args.learning_rate);
        write!(f, "{parameters} parameters; batches of {items}; ")?;
        writeln!(
            f,
            "{epochs} epochs of {steps} steps; learning rate {rate:e}\n"
        )?;
        let mut table = Table::new(
            "<run | >steps | >train loss | >validation loss | >accuracy | >time per epoch \
             | >peak memory | >skipped | >loss scale",
        );
        self.runs.iter().for_each(|run| table.push(self.row(run)));
        let table = if markdown {
            table.markdown()
        } else {
            table.plain()
        };
        write!(f, "{table}")?;
        for run in self.runs {
            for sentence in run.non_finite.iter().chain(&run.failure) {
                writeln!(f, "\n* {}: {sentence}", run.name())?;
            }
        }
        for verdict in &self.verdict {
            let Verdict {
                precision,
                headline,
                ..
            } = verdict;
            writeln!(f, "\n{bold}{precision} {headline}{bold}\n")?;
            for reason in &verdict.because {
                writeln!(f, "* {reason}")?;
            }
        }
        Ok(())
    }
}
