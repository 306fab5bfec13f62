//! What is recorded of a training, whatever becomes of it.

use crate::{non_finite::Events, precision::Precision, statistics};

/// The first steps, in which kernels are tuned and memory is sampled: their times do not count.
pub const WARM_UP: usize = 3;

/// A training step that was made, or skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Before the update.
    pub loss: f64,
    /// Of this step; 1 without loss scaling.
    pub loss_scale: f64,
    pub skipped: bool,
    pub seconds: f64,
}

/// What the model came to on items that no training sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// How many steps were behind it.
    pub step: usize,
    pub loss: f64,
    /// `None` for a model that finds no targets.
    pub accuracy: Option<f64>,
}

/// Grows while a run goes on, so that a panic leaves what came before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub steps: Vec<Step>,
    /// The first one is of the untrained model.
    pub validations: Vec<Validation>,
    pub events: Events,
    /// In bytes; `None` where the backend does not tell.
    pub peak_memory: Option<u64>,
    /// In the forward pass of a step; `None` in plain Burn.
    pub casts_per_step: Option<u64>,
    /// The factor that the next loss would have.
    pub final_loss_scale: Option<f64>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Finished,
    /// Parameters are not finite any more: no step can mend that.
    NonFinite,
    /// It panicked, or the device failed.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub precision: Precision,
    pub seed: u32,
    pub record: Record,
    pub outcome: Outcome,
}

impl Run {
    /// `bf16-seed42`
    pub fn name(&self) -> String {
        format!("{}-seed{}", self.precision, self.seed)
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.record.steps.iter()
    }

    /// The median over the steps after the warm-up, in seconds; `None` if there are none.
    pub fn seconds_per_step(&self) -> Option<f64> {
        let times = self.steps().skip(WARM_UP);
        statistics::median(times.map(|step| step.seconds))
    }

    /// The mean of the finite training losses of the last epoch.
    pub fn train_loss(&self, steps_per_epoch: usize) -> Option<f64> {
        let steps = &self.record.steps;
        let last = &steps[steps.len().saturating_sub(steps_per_epoch)..];
        statistics::mean(
            last.iter()
                .map(|step| step.loss)
                .filter(|loss| loss.is_finite()),
        )
    }

    /// Of the trained model; `None` if the run did not come to its end.
    pub fn final_validation(&self) -> Option<&Validation> {
        match self.outcome {
            Outcome::Finished => self.record.validations.last(),
            Outcome::NonFinite | Outcome::Failed(_) => None,
        }
    }

    pub fn skipped_steps(&self) -> usize {
        self.steps().filter(|step| step.skipped).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(losses: &[f64]) -> Run {
        let step = |(at, loss): (usize, &f64)| Step {
            loss: *loss,
            loss_scale: 1.0,
            skipped: false,
            seconds: at as f64,
        };
        Run {
            precision: Precision::F16,
            seed: 7,
            record: Record {
                steps: losses.iter().enumerate().map(step).collect(),
                ..Record::default()
            },
            outcome: Outcome::Finished,
        }
    }

    #[test]
    fn the_warm_up_is_not_timed() {
        assert_eq!(run(&[1.0; 3]).seconds_per_step(), None);
        assert_eq!(run(&[1.0; 6]).seconds_per_step(), Some(4.0));
    }

    #[test]
    fn the_last_epochs_finite_losses_make_the_training_loss() {
        assert_eq!(run(&[9.0, 1.0, f64::NAN, 2.0]).train_loss(3), Some(1.5));
        assert_eq!(run(&[f64::INFINITY]).train_loss(3), None);
    }

    #[test]
    fn a_run_that_went_wrong_has_no_final_validation() {
        let mut run = run(&[1.0]);
        run.record.validations.push(Validation {
            step: 0,
            loss: 2.0,
            accuracy: None,
        });
        assert!(run.final_validation().is_some());
        run.outcome = Outcome::NonFinite;
        assert_eq!(run.final_validation(), None);
    }
}
