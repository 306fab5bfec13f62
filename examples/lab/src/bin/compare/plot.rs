//! The runs as a picture: training loss, validation loss, and how far the latter is from F32's.

mod curve;

use std::path::Path;

use anyhow::Result;
use plotters::{
    coord::Shift,
    prelude::*,
    style::{RGBColor, ShapeStyle},
};

use self::curve::{Curve, Point, heights};
use crate::{
    precision::Precision,
    run::{Outcome, Run},
};

const SIZE: (u32, u32) = (900, 860);
const FONT: &str = "sans-serif";

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What stands in a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Training,
    Validation,
    AboveF32,
}

impl Shown {
    fn name(self) -> &'static str {
        match self {
            Self::Training => "training loss, smoothed",
            Self::Validation => "validation loss",
            Self::AboveF32 => "validation loss − f32's",
        }
    }

    fn curves(self, runs: &[Run]) -> Vec<Curve<'_>> {
        match self {
            Self::Training => curve::training(runs),
            Self::Validation => curve::validation(runs),
            Self::AboveF32 => curve::above_f32(runs),
        }
    }
}

/// Draws the runs into an SVG file.
pub fn draw(path: &Path, title: &str, runs: &[Run]) -> Result<()> {
    let picture = SVGBackend::new(path, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    let panels = picture
        .titled(title, (FONT, 20))?
        .margin(0, 10, 10, 20)
        .split_evenly((3, 1));
    for (panel, shown) in panels
        .iter()
        .zip([Shown::Training, Shown::Validation, Shown::AboveF32])
    {
        draw_panel(panel, shown, runs)?;
    }
    picture.present()?;
    Ok(())
}

/// Precisions that agree lie on each other, so the later ones are drawn thinner. The key to all panels is in the first.
fn draw_panel(panel: &Panel, shown: Shown, runs: &[Run]) -> Result<()> {
    let curves = shown.curves(runs);
    let steps = runs.iter().map(|run| run.record.steps.len());
    let last_step = steps.max().unwrap_or(0).max(2) as f64;
    let heights = heights(&curves);
    let visible = |point: &&Point| heights.contains(&point.1);

    let mut chart = ChartBuilder::on(panel)
        .x_label_area_size(40)
        .y_label_area_size(75)
        .build_cartesian_2d(0.0..last_step, heights.clone())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 15))
        .x_label_formatter(&|step| format!("{step:.0}"))
        .y_labels(6)
        .y_label_formatter(&|height| label(*height))
        .x_desc(match shown {
            Shown::Training => "step (○ skipped, × ended early)",
            Shown::Validation | Shown::AboveF32 => "step",
        })
        .y_desc(shown.name())
        .draw()?;

    for Curve { run, raw, .. } in &curves {
        let faint = style(run, runs).color.mix(0.2).stroke_width(1);
        let clipped = raw
            .iter()
            .map(|(step, loss)| (*step, loss.clamp(heights.start, heights.end)));
        chart.draw_series(LineSeries::new(clipped, faint))?;
    }
    for Curve { run, points, .. } in &curves {
        let line = style(run, runs);
        chart
            .draw_series(LineSeries::new(
                points.iter().filter(visible).copied(),
                line,
            ))?
            .label(format!("{}, seed {}", run.precision, run.seed))
            .legend(key(line));
        let end = points.iter().rev().find(visible);
        if let (Outcome::NonFinite | Outcome::Failed(_), Some(end)) = (&run.outcome, end) {
            chart.draw_series([Cross::new(*end, 7, line.color.stroke_width(3))])?;
        }
        if shown == Shown::Training {
            let skipped = run.steps().enumerate().filter(|(_, step)| step.skipped);
            let marks = skipped.map(|(index, _)| (index as f64 + 1.0, heights.start));
            chart.draw_series(marks.map(|at| Circle::new(at, 4, line.color.stroke_width(1))))?;
        }
    }
    if shown == Shown::Training {
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

/// Short enough to leave room for the axis's name.
fn label(height: f64) -> String {
    match height.abs() {
        1e4.. => format!("{height:e}"),
        _ => format!("{}", (height * 1e4).round() / 1e4 + 0.0), // -0 becomes 0
    }
}

/// The color is the precision's; seeds after the first are paler and thin.
fn style(run: &Run, runs: &[Run]) -> ShapeStyle {
    let (color, width) = match run.precision {
        Precision::F32 => (RGBColor(130, 130, 130), 6),
        Precision::Bf16 => (RGBColor(31, 119, 180), 4),
        Precision::F16 => (RGBColor(240, 140, 20), 2),
    };
    let first = runs.iter().find(|other| other.precision == run.precision);
    match first.is_some_and(|first| first.seed == run.seed) {
        true => color.stroke_width(width),
        false => color.mix(0.7).stroke_width(2),
    }
}

fn key(line: ShapeStyle) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 25, y)], line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_labelled_in_few_letters() {
        let labels = [6e6, 2.5, -0.01, -1e-17, 0.30000000000000004].map(label);
        assert_eq!(labels, ["6e6", "2.5", "-0.01", "0", "0.3"]);
    }
}
