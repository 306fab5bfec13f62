//! What is drawn of a run.

use std::ops::Range;

use crate::{
    precision::Precision,
    run::{Outcome, Run},
};

/// Weight of a step in the smoothed loss.
const SMOOTHING: f64 = 0.1;

/// Room above and below the curves, as a part of what they span.
const MARGIN: f64 = 0.05;

pub type Point = (f64, f64);

/// A run's curve in one panel.
pub struct Curve<'a> {
    pub run: &'a Run,
    /// Drawn faintly behind.
    pub raw: Vec<Point>,
    pub points: Vec<Point>,
}

/// The training loss, smoothed.
pub fn training(runs: &[Run]) -> Vec<Curve<'_>> {
    let curve = |run| {
        let losses: Vec<f64> = Run::steps(run).map(|step| step.loss).collect();
        Curve {
            run,
            raw: numbered(losses.iter().copied()),
            points: numbered(smooth(&losses)),
        }
    };
    runs.iter().map(curve).collect()
}

pub fn validation(runs: &[Run]) -> Vec<Curve<'_>> {
    let curve = |run| Curve {
        run,
        raw: Vec::new(),
        points: validations(run).collect(),
    };
    runs.iter().map(curve).collect()
}

/// By how much the validation loss is above that of the first run of F32; nothing without one.
///
/// Starts after the first epoch: what other weights come to before any training is of no interest.
pub fn above_f32(runs: &[Run]) -> Vec<Curve<'_>> {
    let Some(baseline) = runs.iter().find(|run| run.precision == Precision::F32) else {
        return Vec::new();
    };
    let curve = |run| {
        let pairs = validations(run).zip(validations(baseline)).skip(1);
        Curve {
            run,
            raw: Vec::new(),
            points: pairs
                .map(|((step, loss), (_, baseline))| (step, loss - baseline))
                .collect(),
        }
    };
    runs.iter().map(curve).collect()
}

/// What the finished runs' curves span, for a run that goes wrong may leave for 10³⁰; all curves if none finished.
pub fn heights(curves: &[Curve]) -> Range<f64> {
    let finished = |curve: &&Curve| curve.run.outcome == Outcome::Finished;
    let of = |curves: Vec<&Curve>| {
        let points = curves.into_iter().flat_map(|curve| &curve.points);
        let heights: Vec<f64> = points.map(|(_, height)| *height).collect();
        let lowest = heights.iter().copied().reduce(f64::min)?;
        Some((lowest, heights.iter().copied().reduce(f64::max)?))
    };
    let span = of(curves.iter().filter(finished).collect()).or_else(|| of(curves.iter().collect()));
    let (lowest, highest) = span.unwrap_or((0.0, 1.0));
    let margin = match highest - lowest {
        0.0 => 1.0,
        span => MARGIN * span,
    };
    lowest - margin..highest + margin
}

/// Those that are finite: none is left out in between, for a run whose validation is not finite does not recover.
fn validations(run: &Run) -> impl Iterator<Item = Point> {
    let validations = run.record.validations.iter();
    let points = validations.map(|validation| (validation.step as f64, validation.loss));
    points.take_while(|(_, loss)| loss.is_finite())
}

/// The finite ones of values at steps 1, 2, …
fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<Point> {
    let numbered = values.into_iter().enumerate();
    let points = numbered.map(|(index, value)| (index as f64 + 1.0, value));
    points.filter(|(_, value)| value.is_finite()).collect()
}

/// A running mean that leaves out what is not finite.
fn smooth(losses: &[f64]) -> Vec<f64> {
    let mean = |mean: &mut Option<f64>, loss: &f64| {
        let before = mean.unwrap_or(*loss);
        if loss.is_finite() {
            *mean = Some(before + SMOOTHING * (loss - before));
        }
        Some(mean.unwrap_or(f64::NAN))
    };
    losses.iter().scan(None, mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Record, Validation};

    fn run(seed: u32, outcome: Outcome, losses: &[f64]) -> Run {
        let validation = |(epoch, loss): (usize, &f64)| Validation {
            step: 10 * epoch,
            loss: *loss,
            accuracy: None,
        };
        Run {
            precision: Precision::F32,
            seed,
            record: Record {
                validations: losses.iter().enumerate().map(validation).collect(),
                ..Record::default()
            },
            outcome,
        }
    }

    #[test]
    fn smoothing_starts_at_the_first_loss_and_leaves_out_what_is_not_finite() {
        assert_eq!(smooth(&[2.0, 2.0, 2.0]), [2.0, 2.0, 2.0]);
        assert_eq!(smooth(&[1.0, f64::INFINITY, 2.0]), [1.0, 1.0, 1.1]);
        assert!(smooth(&[f64::NAN, 1.0])[0].is_nan());
        assert_eq!(numbered([f64::NAN, 1.0]), [(2.0, 1.0)]);
    }

    #[test]
    fn losses_are_compared_after_each_epoch_as_far_as_both_runs_went() {
        let runs = [
            run(1, Outcome::Finished, &[3.0, 2.0, 1.5]),
            run(2, Outcome::Finished, &[4.0, 2.5, 1.0]),
            run(3, Outcome::NonFinite, &[4.0, 2.25]),
        ];
        let points: Vec<_> = above_f32(&runs)
            .into_iter()
            .map(|curve| curve.points)
            .collect();
        let expected: [&[Point]; 3] = [
            &[(10.0, 0.0), (20.0, 0.0)],
            &[(10.0, 0.5), (20.0, -0.5)],
            &[(10.0, 0.25)],
        ];
        assert_eq!(points, expected);
    }

    #[test]
    fn a_run_that_leaves_for_infinity_does_not_flatten_the_others() {
        let good = || run(1, Outcome::Finished, &[2.0, 1.0]);
        let bad = || run(2, Outcome::NonFinite, &[2.0, 1e30]);
        assert_eq!(heights(&validation(&[good(), bad()])), 0.95..2.05);
        assert!(heights(&validation(&[bad()])).end > 1e30);
        assert_eq!(heights(&[]), -0.05..1.05);
    }
}
