//! A run, step by step, as CSV.
//!
//! `step` counts from 1, and row 0 is the untrained model. A validation stands in the row of the last step before it;
//! elsewhere its cells are empty. Losses that are not finite are `inf`, `-inf` and `NaN`.

use std::io::{self, Write};

use crate::run::{Record, Step, Validation};

const HEADER: &str =
    "step,epoch,train_loss,validation_loss,validation_accuracy,loss_scale,skipped,seconds";

/// # Errors
///
/// If `file` cannot be written to.
pub fn write(mut file: impl Write, record: &Record, steps_per_epoch: usize) -> io::Result<()> {
    writeln!(file, "{HEADER}")?;
    let rows = [None].into_iter().chain(record.steps.iter().map(Some));
    for (number, step) in rows.enumerate() {
        let validation = record
            .validations
            .iter()
            .find(|validation| validation.step == number);
        let row = row(number, number.div_ceil(steps_per_epoch), step, validation);
        writeln!(file, "{}", row.join(","))?;
    }
    file.flush()
}

fn row(
    number: usize,
    epoch: usize,
    step: Option<&Step>,
    validation: Option<&Validation>,
) -> [String; 8] {
    let accuracy = validation.and_then(|validation| validation.accuracy);
    [
        number.to_string(),
        epoch.to_string(),
        cell(step.map(|step| step.loss)),
        cell(validation.map(|validation| validation.loss)),
        cell(accuracy),
        cell(step.map(|step| step.loss_scale)),
        cell(step.map(|step| u8::from(step.skipped))),
        cell(step.map(|step| step.seconds)),
    ]
}

fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_stand_beside_the_step_before_them() {
        let step = |loss, skipped| Step {
            loss,
            loss_scale: 65536.0,
            skipped,
            seconds: 0.25,
        };
        let validation = |step, accuracy| Validation {
            step,
            loss: 2.5,
            accuracy,
        };
        let record = Record {
            steps: vec![
                step(2.0, false),
                step(f64::INFINITY, true),
                step(1.5, false),
            ],
            validations: vec![validation(0, None), validation(2, Some(0.5))],
            ..Record::default()
        };
        let mut file = Vec::new();
        write(&mut file, &record, 2).unwrap();
        let expected = "\
step,epoch,train_loss,validation_loss,validation_accuracy,loss_scale,skipped,seconds
0,0,,2.5,,,,
1,1,2,,,65536,0,0.25
2,1,inf,2.5,0.5,65536,1,0.25
3,2,1.5,,,65536,0,0.25
";
        assert_eq!(String::from_utf8(file).unwrap(), expected);
    }
}
