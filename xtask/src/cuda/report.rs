//! Steps as tables for people: on the terminal, and as a page of the book.

use std::fmt::Write as _;

use anyhow::Result;

use super::{model::Device, step::Step};

/// The device whose times are estimated.
const DEVICE: &str = "h200";

const HEADER: &[&str] = &[
    "model",
    "precision",
    "launches",
    "uploads",
    "waits",
    "drains",
    "reads",
    "casts",
    "casts, GB",
    "GB besides products",
    "over f32",
    "peak, MiB",
    "over f32",
    "ms by the model",
    "f32 over it",
    "mostly",
];

/// The steps, each beside the same in plain Burn if that is among them.
pub fn steps(steps: &[Step]) -> Result<String> {
    let device = Device::read(DEVICE)?;
    let mut rows = vec![HEADER.iter().map(|cell| (*cell).to_owned()).collect()];
    rows.extend(steps.iter().map(|step| {
        let plain = steps.iter().find(|other| other.run == step.run.in_f32());
        row(step, plain, &device)
    }));
    Ok(format!(
        "{}\nTimes are a model's, for an {}: nothing was measured.\n",
        markdown(&rows),
        device.name
    ))
}

fn row(step: &Step, plain: Option<&Step>, device: &Device) -> Vec<String> {
    let over = |number: &dyn Fn(&Step) -> f64| match plain {
        Some(plain) => format!("{:.2}", number(step) / number(plain)),
        None => "-".to_owned(),
    };
    let estimate = device.estimate(step);
    let seconds = |step: &Step| device.estimate(step).seconds();
    let causes: Vec<String> = estimate
        .0
        .iter()
        .take(4)
        .map(|(cause, seconds)| format!("{cause} {:.1}", seconds * 1e3))
        .collect();
    let fusion = if step.run.fusion { ", Fusion" } else { "" };
    let casts = step.class("cast");
    vec![
        step.run.model.clone(),
        format!("{}{fusion}", step.run.precision.name()),
        step.launches.to_string(),
        step.uploads.to_string(),
        step.waits.to_string(),
        step.drains.to_string(),
        step.reads.to_string(),
        casts.launches.to_string(),
        gigabytes(casts.bytes),
        gigabytes(step.bytes_besides_products()),
        over(&|step| step.bytes_besides_products() as f64),
        format!("{:.0}", step.peak_bytes as f64 / f64::from(1 << 20)),
        over(&|step| step.peak_bytes as f64),
        format!("{:.1}", estimate.seconds() * 1e3),
        match plain {
            Some(plain) => format!("{:.2}", seconds(plain) / estimate.seconds()),
            None => "-".to_owned(),
        },
        causes.join(", "),
    ]
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}

/// A table in markdown; the first row is the header. All columns but the first two and the last are numbers.
fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let is_number = |column: usize| column > 1 && column + 1 < columns;
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(2)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = match is_number(column) {
                true => write!(text, "| {cell:>width$} "),
                false => write!(text, "| {cell:<width$} "),
            };
        }
        text += "|\n";
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if is_number(column) { ":" } else { "-" };
                let _ = write!(text, "| {end:->width$} ");
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right() {
        let rows = [["m", "p", "launches", "mostly"], ["gpt", "f32", "12", "x"]]
            .map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
| m   | p   | launches | mostly |
| --- | --- | -------: | ------ |
| gpt | f32 |       12 | x      |
";
        assert_eq!(markdown(&rows), expected);
    }
}
