//! The record of a training run, however it ends.

use lab::{
    precision::Precision,
    statistics::{mean, percentile},
};

/// The first steps, in which kernels are tuned and memory is measured: their times do not count.
pub const WARM_UP: usize = 3;

/// The columns of a run's CSV file.
const HEADER: &str =
    "step,epoch,train_loss,validation_loss,validation_accuracy,loss_scale,skipped,seconds\n";

/// A training step, made or skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The loss before the update.
    pub loss: f64,
    /// The loss scale of this step; 1 without loss scaling.
    pub loss_scale: f64,
    pub skipped: bool,
    pub seconds: f64,
}

/// The quality of the model on items that no training sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// The number of steps before it.
    pub step: usize,
    pub loss: f64,
    /// `None` for a model without targets to find.
    pub accuracy: Option<f64>,
}

/// A run. It grows while the training goes on, so that a panic leaves the steps before it.
#[derive(Default)]
pub struct Run {
    pub precision: Precision,
    pub seed: u32,
    pub steps: Vec<Step>,
    /// The first one is that of the untrained model.
    pub validations: Vec<Validation>,
    /// A sentence about the first step in which something was not finite, and the places.
    pub non_finite: Option<String>,
    /// In bytes; `None` if the device does not answer.
    pub peak_memory: Option<u64>,
    /// The factor that the next loss would have.
    pub final_loss_scale: Option<f64>,
    /// Why it ended early: it panicked, the device failed or does not offer the precision, or parameters became
    /// non-finite, which no step can mend.
    pub failure: Option<String>,
}

impl Run {
    /// `amp-bf16-seed42`, also the name of the run's CSV file.
    pub fn name(&self) -> String {
        format!("{}-seed{}", self.precision.name(), self.seed)
    }

    /// The median over the steps after the warm-up.
    pub fn seconds_per_step(&self) -> Option<f64> {
        let times = self.steps.iter().skip(WARM_UP).map(|step| step.seconds);
        percentile(&times.collect::<Vec<_>>(), 50.0)
    }

    /// The mean of the finite training losses of the last epoch.
    pub fn train_loss(&self, steps_per_epoch: usize) -> Option<f64> {
        let last = &self.steps[self.steps.len().saturating_sub(steps_per_epoch)..];
        let losses = last.iter().map(|step| step.loss);
        mean(&losses.filter(|loss| loss.is_finite()).collect::<Vec<_>>())
    }

    /// The validation of the trained model; `None` if the run ended early.
    pub fn final_validation(&self) -> Option<&Validation> {
        self.validations.last().filter(|_| self.failure.is_none())
    }

    /// Its loss, if that is finite.
    pub fn final_loss(&self) -> Option<f64> {
        let loss = self.final_validation()?.loss;
        loss.is_finite().then_some(loss)
    }

    pub fn skipped_steps(&self) -> usize {
        self.steps.iter().filter(|step| step.skipped).count()
    }

    /// The steps as CSV.
    ///
    /// `step` counts from 1, and row 0 is the untrained model. A validation is in the row of the last step before it;
    /// elsewhere its cells are empty. Losses that are not finite are `inf`, `-inf` and `NaN`.
    pub fn csv(&self, steps_per_epoch: usize) -> String {
        let mut csv = HEADER.to_owned();
        for number in 0..=self.steps.len() {
            let step = number.checked_sub(1).map(|index| &self.steps[index]);
            let validation = self.validations.iter().find(|it| it.step == number);
            let row = [
                Some(number as f64),
                Some(number.div_ceil(steps_per_epoch) as f64),
                step.map(|step| step.loss),
                validation.map(|it| it.loss),
                validation.and_then(|it| it.accuracy),
                step.map(|step| step.loss_scale),
                step.map(|step| step.skipped.into()),
                step.map(|step| step.seconds),
            ];
            let cell = |number: Option<f64>| number.map_or(String::new(), |it| it.to_string());
            csv += &(row.map(cell).join(",") + "\n");
        }
        csv
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run with a loss scale of 2^16 that skipped the steps whose loss is not finite.
    pub fn run(losses: &[f64]) -> Run {
        let step = |(loss, seconds): (&f64, u8)| Step {
            loss: *loss,
            loss_scale: 65536.0,
            skipped: !loss.is_finite(),
            seconds: seconds.into(),
        };
        Run {
            steps: losses.iter().zip(0..).map(step).collect(),
            ..Run::default()
        }
    }

    pub fn validation(step: usize, loss: f64) -> Validation {
        Validation {
            step,
            loss,
            accuracy: Some(0.5),
        }
    }

    #[test]
    fn the_warm_up_is_not_timed_and_the_last_epochs_finite_losses_count() {
        assert_eq!(run(&[1.0; 3]).seconds_per_step(), None);
        assert_eq!(run(&[1.0; 6]).seconds_per_step(), Some(4.0));
        assert_eq!(run(&[9.0, 1.0, f64::NAN, 2.0]).train_loss(3), Some(1.5));
        assert_eq!(run(&[f64::INFINITY]).train_loss(3), None);
    }

    #[test]
    fn validations_are_in_the_row_of_the_step_before_them() {
        let mut run = run(&[2.0, f64::INFINITY, 1.5]);
        run.validations = vec![validation(0, 2.5), validation(2, 2.25)];
        let expected = "\
0,0,,2.5,0.5,,,
1,1,2,,,65536,0,0
2,1,inf,2.25,0.5,65536,1,1
3,2,1.5,,,65536,0,2
";
        assert_eq!(run.csv(2).strip_prefix(HEADER), Some(expected));
        assert_eq!(run.final_loss(), Some(2.25));
        run.failure = Some("out of memory".to_owned());
        assert_eq!(run.final_loss(), None);
    }
}
