//! The runs as a picture: training loss, validation loss and loss scale.

use std::{ops::Range, path::Path};

use anyhow::Result;
use lab::statistics::extremes;
use plotters::{coord::Shift, prelude::*};

use crate::run::Run;

/// The points that a panel shows of a run.
type PointsOf = fn(&Run) -> Vec<Point>;

/// The weight of a step in the smoothed loss.
const SMOOTHING: f64 = 0.1;

/// A step, and a height.
type Point = (usize, f64);

/// A run with its curve in a panel; all heights are finite.
type Curve<'a> = (&'a Run, Vec<Point>);

/// Draws the runs into an SVG file.
pub fn draw(path: &Path, title: &str, runs: &[Run]) -> Result<()> {
    let picture = SVGBackend::new(path, (900, 860)).into_drawing_area();
    picture.fill(&WHITE)?;
    let picture = picture
        .titled(title, ("sans-serif", 20))?
        .margin(0, 10, 10, 20);
    let panels: [(&str, PointsOf); 3] = [
        ("training loss, smoothed", smoothed_losses),
        ("validation loss", validation_losses),
        ("loss scale, log2", loss_scales),
    ];
    for (area, (name, points)) in picture.split_evenly((3, 1)).iter().zip(panels) {
        let finite = |(_, height): &Point| height.is_finite();
        let curve = |run| (run, points(run).into_iter().filter(finite).collect());
        draw_panel(area, name, &runs.iter().map(curve).collect::<Vec<_>>())?;
    }
    picture.present()?;
    Ok(())
}

/// Draws the later precisions thinner, because curves that agree cover each other, and the later seeds paler.
fn draw_panel(area: &DrawingArea<SVGBackend, Shift>, name: &str, curves: &[Curve]) -> Result<()> {
    let steps = curves.iter().map(|(run, _)| run.steps.len()).max();
    let heights = heights(curves);
    let visible = |point: &&Point| heights.contains(&point.1);
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(40)
        .y_label_area_size(75)
        .build_cartesian_2d(0..steps.unwrap_or(0).max(2), heights.clone())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .axis_desc_style(("sans-serif", 15))
        .y_labels(6)
        .x_desc("step")
        .y_desc(name)
        .draw()?;

    for (run, points) in curves {
        let precision = run.precision as u8;
        let hue = (0.6 + 0.382 * f64::from(precision)).fract(); // steps of the golden ratio keep apart
        let mut seeds = curves.iter().map(|(run, _)| run);
        let is_later = seeds.any(|it| it.precision == run.precision && it.seed < run.seed);
        let (alpha, width) = if is_later { (0.6, 2) } else { (1.0, 6) };
        let color = HSLColor(hue, 0.8, 0.45).mix(alpha);
        let line = color.stroke_width(width.min(6 - 2 * precision.min(2)).into());
        let series = LineSeries::new(points.iter().filter(visible).copied(), line);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 25, y)], line);
        chart.draw_series(series)?.label(run.name()).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// The span of the finished runs' curves, because a run that goes wrong may leave for 10³⁰; of all if none finished.
fn heights(curves: &[Curve]) -> Range<f64> {
    let finished = |(run, _): &&Curve| run.failure.is_none();
    let points = |(_, points): &Curve| points.iter().map(|point| point.1).collect::<Vec<_>>();
    let (lowest, highest) = extremes(curves.iter().filter(finished).flat_map(points))
        .or_else(|| extremes(curves.iter().flat_map(points)))
        .unwrap_or((0.0, 1.0));
    let span = highest - lowest;
    let margin = if span == 0.0 { 1.0 } else { 0.05 * span };
    lowest - margin..highest + margin
}

/// A running mean of the training losses that leaves out what is not finite.
fn smoothed_losses(run: &Run) -> Vec<Point> {
    let losses = (1..).zip(run.steps.iter().map(|step| step.loss));
    let finite = losses.filter(|(_, loss)| loss.is_finite());
    let smooth = |mean: &mut Option<f64>, (number, loss)| {
        let before = mean.unwrap_or(loss);
        Some((number, *mean.insert(before + SMOOTHING * (loss - before))))
    };
    finite.scan(None, smooth).collect()
}

fn validation_losses(run: &Run) -> Vec<Point> {
    let validations = run.validations.iter();
    validations.map(|it| (it.step, it.loss)).collect()
}

fn loss_scales(run: &Run) -> Vec<Point> {
    let scales = run.steps.iter().map(|step| step.loss_scale.log2());
    (1..).zip(scales).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::run;

    #[test]
    fn what_is_not_finite_or_leaves_for_infinity_does_not_spoil_the_picture() {
        let good = run(&[f64::NAN, 1.0, f64::INFINITY, 2.0]);
        assert_eq!(smoothed_losses(&good), [(2, 1.0), (4, 1.1)]);

        let mut lost = run(&[]);
        lost.failure = Some("non-finite".to_owned());
        let curves = [(&good, vec![(1, 2.0), (2, 1.0)]), (&lost, vec![(1, 1e30)])];
        assert_eq!(heights(&curves), 0.95..2.05);
        assert_eq!(heights(&curves[1..]), 1e30 - 1.0..1e30 + 1.0);
        assert_eq!(heights(&[]), -0.05..1.05);
    }
}
