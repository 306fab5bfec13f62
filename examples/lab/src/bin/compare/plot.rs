//! The runs as a picture: training loss, validation loss, and how far the latter is from F32's.

use std::{ops::Range, path::Path};

use anyhow::Result;
use lab::{precision::Precision, statistics::extremes};
use plotters::{
    coord::Shift,
    prelude::*,
    style::{RGBColor, ShapeStyle},
};

use crate::run::{Outcome, Run};

const SIZE: (u32, u32) = (900, 860);
const FONT: &str = "sans-serif";

/// The weight of a step in the smoothed loss.
const SMOOTHING: f64 = 0.1;

/// Room above and below the curves, as a part of what they span.
const MARGIN: f64 = 0.05;

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Point = (f64, f64);

/// A run with its curve in a panel.
type Curve<'a> = (&'a Run, Vec<Point>);

/// Draws the runs into an SVG file.
pub fn draw(path: &Path, title: &str, runs: &[Run]) -> Result<()> {
    let picture = SVGBackend::new(path, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    let picture = picture.titled(title, (FONT, 20))?.margin(0, 10, 10, 20);
    let panels = picture.split_evenly((3, 1));
    let raw = |run| numbered(losses(run));
    let raw: Vec<Curve> = runs.iter().map(|run| (run, raw(run))).collect();
    let smoothed = |run| numbered(smooth(losses(run)));
    let smoothed: Vec<Curve> = runs.iter().map(|run| (run, smoothed(run))).collect();
    let validated: Vec<Curve> = runs.iter().map(|run| (run, validations(run))).collect();
    let training = "training loss (faint: every step)";
    draw_panel(&panels[0], training, &smoothed, Some(&raw))?;
    draw_panel(&panels[1], "validation loss", &validated, None)?;
    draw_panel(
        &panels[2],
        "validation loss − f32's",
        &above_f32(&validated),
        None,
    )?;
    picture.present()?;
    Ok(())
}

/// Draws the later precisions thinner, because curves that agree cover each other. The legend of all panels is in the
/// one with `raw` curves, which are drawn faintly behind the others.
fn draw_panel(panel: &Panel, name: &str, curves: &[Curve], raw: Option<&[Curve]>) -> Result<()> {
    let steps = curves.iter().map(|(run, _)| run.steps.len()).max();
    let heights = heights(curves);
    let visible = |point: &&Point| heights.contains(&point.1);
    let mut chart = ChartBuilder::on(panel)
        .x_label_area_size(40)
        .y_label_area_size(75)
        .build_cartesian_2d(0.0..steps.unwrap_or(0).max(2) as f64, heights.clone())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 15))
        .x_label_formatter(&|step| format!("{step:.0}"))
        .y_labels(6)
        .y_label_formatter(&|height| label(*height))
        .x_desc(match raw {
            Some(_) => "step (○ skipped, × ended early)",
            None => "step",
        })
        .y_desc(name)
        .draw()?;

    for (run, points) in raw.into_iter().flatten() {
        let faint = style(run, curves).color.mix(0.2).stroke_width(1);
        let clip = |(step, loss): &Point| (*step, loss.clamp(heights.start, heights.end));
        chart.draw_series(LineSeries::new(points.iter().map(clip), faint))?;
    }
    for (run, points) in curves {
        let line = style(run, curves);
        let series = LineSeries::new(points.iter().filter(visible).copied(), line);
        let label = format!("{}, seed {}", run.precision.name(), run.seed);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 25, y)], line);
        chart.draw_series(series)?.label(label).legend(key);
        if let (false, Some(end)) = (
            run.outcome == Outcome::Finished,
            points.iter().rev().find(visible),
        ) {
            chart.draw_series([Cross::new(*end, 7, line.color.stroke_width(3))])?;
        }
        if raw.is_some() {
            let steps = run.steps.iter().zip(1..);
            let skipped = steps.filter(|(step, _)| step.skipped);
            let mark = |(_, number)| (f64::from(number), heights.start);
            let circle = |at| Circle::new(at, 4, line.color.stroke_width(1));
            chart.draw_series(skipped.map(mark).map(circle))?;
        }
    }
    if raw.is_some() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font((FONT, 15))
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}

/// Formats a value briefly, to leave room for the axis's name.
fn label(height: f64) -> String {
    match height.abs() {
        1e4.. => format!("{height:e}"),
        _ => format!("{}", (height * 1e4).round() / 1e4 + 0.0), // -0 becomes 0
    }
}

/// The color of the precision, bold for its first seed.
fn style(run: &Run, curves: &[Curve]) -> ShapeStyle {
    let (color, width) = match run.precision {
        Precision::F32 => (RGBColor(130, 130, 130), 6),
        Precision::AmpBf16 => (RGBColor(31, 119, 180), 4),
        Precision::AmpF16 => (RGBColor(240, 140, 20), 2),
        Precision::AmpF16Static128 => (RGBColor(200, 60, 50), 2),
        Precision::AmpF16Unscaled => (RGBColor(230, 190, 60), 2),
        Precision::AmpDecomposed => (RGBColor(90, 180, 230), 2),
        Precision::O2 => (RGBColor(40, 150, 80), 2),
    };
    let mut seeds = curves.iter().map(|(run, _)| run);
    if seeds.any(|other| other.precision == run.precision && other.seed < run.seed) {
        color.mix(0.7).stroke_width(2)
    } else {
        color.stroke_width(width)
    }
}

/// The validation losses minus those of F32's first run, after each epoch; nothing without a run of F32.
fn above_f32<'a>(curves: &[Curve<'a>]) -> Vec<Curve<'a>> {
    let is_f32 = |(run, _): &&Curve| run.precision == Precision::F32;
    let Some((_, baseline)) = curves.iter().find(is_f32) else {
        return Vec::new();
    };
    let above = |points: &[Point]| {
        let pairs = points.iter().zip(baseline).skip(1);
        pairs
            .map(|((step, loss), (_, of_f32))| (*step, loss - of_f32))
            .collect()
    };
    curves
        .iter()
        .map(|(run, points)| (*run, above(points)))
        .collect()
}

/// The span of the finished runs' curves, because a run that goes wrong may leave for 10³⁰; of all if none finished.
fn heights(curves: &[Curve]) -> Range<f64> {
    let finished = |(run, _): &&Curve| run.outcome == Outcome::Finished;
    let points = |(_, points): &Curve| points.iter().map(|point| point.1).collect::<Vec<_>>();
    let span = extremes(curves.iter().filter(finished).flat_map(points))
        .or_else(|| extremes(curves.iter().flat_map(points)));
    let (lowest, highest) = span.unwrap_or((0.0, 1.0));
    let margin = match highest - lowest {
        0.0 => 1.0,
        span => MARGIN * span,
    };
    lowest - margin..highest + margin
}

fn losses(run: &Run) -> impl Iterator<Item = f64> {
    run.steps.iter().map(|step| step.loss)
}

/// The validations until one is not finite: such a run does not recover.
fn validations(run: &Run) -> Vec<Point> {
    let points = run.validations.iter().map(|it| (it.step as f64, it.loss));
    points.take_while(|(_, loss)| loss.is_finite()).collect()
}

/// The finite ones of values at steps 1, 2, …
fn numbered(values: impl Iterator<Item = f64>) -> Vec<Point> {
    let points = (1..).map(f64::from).zip(values);
    points.filter(|(_, value)| value.is_finite()).collect()
}

/// A running mean that leaves out what is not finite.
fn smooth(losses: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
    losses.scan(None, |mean: &mut Option<f64>, loss| {
        let before = mean.unwrap_or(loss);
        if loss.is_finite() {
            *mean = Some(before + SMOOTHING * (loss - before));
        }
        Some(mean.unwrap_or(f64::NAN))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Validation;

    fn run(outcome: Outcome, losses: &[f64]) -> Run {
        let validation = |(loss, epoch): (&f64, u8)| Validation {
            step: 10 * usize::from(epoch),
            loss: *loss,
            accuracy: None,
        };
        Run {
            validations: losses.iter().zip(0..).map(validation).collect(),
            outcome,
            ..Run::new(Precision::F32, 1)
        }
    }

    fn curves(runs: &[Run]) -> Vec<Curve<'_>> {
        runs.iter().map(|run| (run, validations(run))).collect()
    }

    #[test]
    fn heights_are_labelled_in_few_letters() {
        let labels = [6e6, 2.5, -0.01, -1e-17, 0.30000000000000004].map(label);
        assert_eq!(labels, ["6e6", "2.5", "-0.01", "0", "0.3"]);
    }

    #[test]
    fn smoothing_starts_at_the_first_loss_and_leaves_out_what_is_not_finite() {
        let smoothed = smooth([f64::NAN, 1.0, f64::INFINITY, 2.0].into_iter());
        assert_eq!(numbered(smoothed), [(2.0, 1.0), (3.0, 1.0), (4.0, 1.1)]);
    }

    #[test]
    fn losses_are_compared_after_each_epoch_as_far_as_both_runs_went() {
        let f32 = run(Outcome::Finished, &[3.0, 2.0, 1.5]);
        let runs = [f32, run(Outcome::NonFinite, &[4.0, 2.25, f64::NAN])];
        let points: Vec<_> = above_f32(&curves(&runs))
            .into_iter()
            .map(|it| it.1)
            .collect();
        assert_eq!(points, [vec![(10.0, 0.0), (20.0, 0.0)], vec![(10.0, 0.25)]]);
    }

    #[test]
    fn a_run_that_leaves_for_infinity_does_not_flatten_the_others() {
        let good = run(Outcome::Finished, &[2.0, 1.0]);
        let runs = [good, run(Outcome::NonFinite, &[2.0, 1e30])];
        assert_eq!(heights(&curves(&runs)), 0.95..2.05);
        assert!(heights(&curves(&runs[1..])).end > 1e30);
        assert_eq!(heights(&[]), -0.05..1.05);
    }
}
