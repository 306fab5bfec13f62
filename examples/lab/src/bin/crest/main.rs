//! What formats of eight bits and fewer lose, over the crest factor: the largest value of a block over the root of its mean square.
//!
//! ```text
//! cargo run --release -p lab --bin crest -- book/src/images/crest.svg
//! ```
//!
//! The values are normal, and their block has a scale for a largest value that is so many times their root mean square. The theory is
//! that of uniform steps for INT8 and of uniform mantissas for floats ("INT v.s. FP", arXiv:2510.25602, section 4).

mod loss;

use std::path::PathBuf;

use anyhow::Result;
use burn_amp_core::formats::{Format, Scaling};
use clap::Parser;
use lab::table::Table;
use plotters::prelude::*;

use crate::loss::{Kind, crossing};

/// Measures what formats lose over crest factors, beside the theory, and draws it.
#[derive(Parser)]
struct Args {
    /// The SVG file.
    out: PathBuf,
}

/// What is measured, with the color of its curve.
const KINDS: [(Kind, RGBColor); 6] = [
    (
        Kind::new("INT8", Format::Int8, Scaling::Real),
        RGBColor(0, 90, 180),
    ),
    (
        Kind::new("MXINT8", Format::Int8, Scaling::PowerUp),
        RGBColor(90, 170, 240),
    ),
    (
        Kind::new("E4M3", Format::E4M3, Scaling::Real),
        RGBColor(190, 60, 20),
    ),
    (
        Kind::new("MXFP8 E4M3", Format::E4M3, Scaling::PowerUp),
        RGBColor(240, 150, 90),
    ),
    (
        Kind::new("E5M2", Format::E5M2, Scaling::Real),
        RGBColor(110, 110, 110),
    ),
    (
        Kind::new("E2M1", Format::E2M1, Scaling::Real),
        RGBColor(40, 140, 60),
    ),
];

/// The crest factors: that of 32 normal values is 2.3 (the median), and outliers make it larger.
fn crests() -> Vec<f64> {
    (0..=40)
        .map(|step| 2.5 * 16f64.powf(f64::from(step) / 40.0))
        .collect()
}

fn main() -> Result<()> {
    let Args { out } = Args::parse();
    let mut table = Table::new("<format | >crest 2.5 | >5 | >10 | >20 | >40 | >theory at 10");
    for (kind, _) in KINDS {
        let mut row = vec![kind.name.to_owned()];
        row.extend(
            [2.5, 5.0, 10.0, 20.0, 40.0].map(|crest| format!("{:.1}", kind.measured(crest))),
        );
        row.push(
            kind.theory(10.0)
                .map_or(String::new(), |theory| format!("{theory:.1}")),
        );
        table.push(row);
    }
    println!("Signal to noise in dB.\n\n{}", table.markdown());
    for [int, float] in [[0, 2], [1, 3]] {
        let [int, float] = [int, float].map(|at: usize| KINDS[at].0);
        println!(
            "{} loses less than {} up to a crest factor of {:.2}; {:.2} by the theory.",
            int.name,
            float.name,
            crossing(|crest| int.measured(crest) - float.measured(crest)),
            crossing(|crest| int.theory(crest).unwrap() - float.theory(crest).unwrap()),
        );
    }
    draw(&out)
}

fn draw(out: &std::path::Path) -> Result<()> {
    let picture = SVGBackend::new(out, (820, 480)).into_drawing_area();
    picture.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&picture)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((2.5..40.0f64).log_scale(), 0.0..48.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .axis_desc_style(("sans-serif", 15))
        .x_desc("crest factor of a block")
        .y_desc("signal to noise, dB; dashed: theory")
        .x_labels(16)
        .x_label_formatter(&|crest| format!("{crest:.0}"))
        .y_label_formatter(&|decibels| format!("{decibels:.0}"))
        .draw()?;
    for (kind, color) in KINDS {
        let measured = crests()
            .into_iter()
            .map(|crest| (crest, kind.measured(crest)));
        let line = LineSeries::new(measured, color.stroke_width(2));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 25, y)], color.stroke_width(2));
        chart.draw_series(line)?.label(kind.name).legend(key);
        let theory = crests()
            .into_iter()
            .filter_map(|crest| Some((crest, kind.theory(crest)?)));
        chart.draw_series(DashedLineSeries::new(theory, 4, 4, color.stroke_width(1)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    picture.present()?;
    Ok(())
}
