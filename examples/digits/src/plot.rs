//! The runs as a picture: the loss above, the loss scale below.

use std::{iter, path::Path};

use anyhow::Result;
use plotters::{
    coord::Shift,
    prelude::*,
    style::{RGBColor, ShapeStyle},
};

use crate::{precision::Precision, report::Run};

const SIZE: (u32, u32) = (900, 640);
const LOSS_HEIGHT: u32 = 400;
const FONT: &str = "sans-serif";

/// Weight of a step in the smoothed loss.
const SMOOTHING: f64 = 0.15;

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the runs into an SVG file.
pub fn draw(path: &Path, title: &str, runs: &[Run]) -> Result<()> {
    let picture = SVGBackend::new(path, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    let (above, below) = picture
        .titled(title, (FONT, 20))?
        .margin(0, 10, 10, 20)
        .split_vertically(LOSS_HEIGHT);
    draw_losses(&above, runs)?;
    draw_loss_scales(&below, runs)?;
    picture.present()?;
    Ok(())
}

/// Draws smoothed lines over the raw ones. Curves that agree cover each other, so the later precisions are thinner.
fn draw_losses(panel: &Panel, runs: &[Run]) -> Result<()> {
    let drawable = |(_, loss): &(usize, f64)| loss.is_finite() && *loss > 0.0;
    let losses = || {
        let all = runs.iter().flat_map(|run| points(&run.trained.losses));
        all.filter(drawable).map(|(_, loss)| loss)
    };
    // plotters labels an axis from its first power of ten on, so the axis starts a little below one.
    let lowest = 0.99 * 10f64.powf(losses().fold(1.0, f64::min).log10().floor());
    let highest = losses().fold(1.0, f64::max);

    let mut chart = ChartBuilder::on(panel)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(1..last_step(runs), (lowest..highest * 1.3).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 15))
        .y_labels(30)
        .y_label_formatter(&|loss| decade_label(*loss))
        .y_desc("training loss")
        .draw()?;

    for run in runs {
        let faint = style(run.precision).0.mix(0.25).stroke_width(1);
        chart.draw_series(LineSeries::new(
            points(&run.trained.losses).filter(drawable),
            faint,
        ))?;
    }
    for run in runs {
        let (color, width) = style(run.precision);
        let line = color.stroke_width(width);
        chart
            .draw_series(LineSeries::new(
                points(&smooth(&run.trained.losses)).filter(drawable),
                line,
            ))?
            .label(format!("{}, smoothed", run.precision))
            .legend(key(line));
    }
    // An empty series, only to explain the lines behind the others.
    let faint = BLACK.mix(0.4).stroke_width(1);
    chart
        .draw_series(LineSeries::new(iter::empty(), faint))?
        .label("every step")
        .legend(key(faint));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font((FONT, 15))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn draw_loss_scales(panel: &Panel, runs: &[Run]) -> Result<()> {
    let exponents = |run: &Run| -> Vec<f64> {
        let scales = run.amp.iter().flat_map(|amp| &amp.loss_scales);
        scales.map(|scale| f64::from(scale.log2())).collect()
    };
    let highest = runs.iter().flat_map(exponents).fold(1.0, f64::max);

    let mut chart = ChartBuilder::on(panel)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(1..last_step(runs), -1.0..highest + 2.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 15))
        .y_labels(6)
        .y_label_formatter(&|exponent| power_of_two(*exponent))
        .x_desc("training step (○ skipped)")
        .y_desc("loss scale")
        .draw()?;

    for run in runs {
        let Some(amp) = &run.amp else { continue };
        let (color, width) = style(run.precision);
        let exponents = exponents(run);
        chart.draw_series(LineSeries::new(
            points(&exponents),
            color.stroke_width(width),
        ))?;
        let skipped = points(&exponents)
            .zip(&amp.skipped)
            .filter(|(_, skipped)| **skipped);
        chart
            .draw_series(skipped.map(|(point, _)| Circle::new(point, 4, color.stroke_width(1))))?;
    }
    Ok(())
}

fn style(precision: Precision) -> (RGBColor, u32) {
    match precision {
        Precision::F32 => (RGBColor(170, 170, 170), 7),
        Precision::Bf16 => (RGBColor(31, 119, 180), 4),
        Precision::F16 => (RGBColor(240, 140, 20), 2),
    }
}

fn key(line: ShapeStyle) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 25, y)], line)
}

/// Labels 1, 2 and 5 of each decade, without the digits that a sum of decimal fractions leaves, as in
/// 0.7000000000000001.
fn decade_label(loss: f64) -> String {
    let digit = loss / 10f64.powf(loss.log10().floor());
    let is_labelled = [1.0, 2.0, 5.0].map(|it| (digit - it).abs() < 1e-6);
    if is_labelled.contains(&true) {
        ((loss * 1e6).round() / 1e6).to_string()
    } else {
        String::new()
    }
}

fn points(values: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    values
        .iter()
        .enumerate()
        .map(|(at, value)| (at + 1, *value))
}

fn last_step(runs: &[Run]) -> usize {
    let steps = runs.iter().map(|run| run.trained.losses.len());
    steps.max().unwrap_or(0).max(2)
}

fn smooth(losses: &[f64]) -> Vec<f64> {
    let mean = |mean: &mut Option<f64>, loss: &f64| {
        let before = mean.unwrap_or(*loss);
        *mean = Some(before + SMOOTHING * (loss - before));
        *mean
    };
    losses.iter().scan(None, mean).collect()
}

fn power_of_two(exponent: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = |letter: char| match letter.to_digit(10) {
        Some(digit) => DIGITS[digit as usize],
        None => '⁻',
    };
    let exponent = format!("{exponent:.0}");
    format!("2{}", exponent.chars().map(raised).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_labels_of_a_decade_are_written_and_short() {
        let labels = [0.1 + 0.1 * 4.0, 0.1 * 7.0, 3.0, 2e-3, 1.0].map(decade_label);
        assert_eq!(labels, ["0.5", "", "", "0.002", "1"]);
    }

    #[test]
    fn writes_powers_of_two() {
        assert_eq!(power_of_two(16.0), "2¹⁶");
        assert_eq!(power_of_two(-1.0), "2⁻¹");
    }

    #[test]
    fn smoothing_starts_at_the_first_loss_and_keeps_constants() {
        assert_eq!(smooth(&[2.0, 2.0, 2.0]), [2.0, 2.0, 2.0]);
        assert_eq!(smooth(&[1.0, 2.0]), [1.0, 1.15]);
    }
}
