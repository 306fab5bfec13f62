//! A report for a terminal, and what a page shares with it.

use super::{
    Report,
    sections::{Section, sections},
    units::{bytes, flops, number, percent, share},
};
use crate::columns::columns;

/// The title of a report.
pub(super) fn title(report: &Report) -> String {
    let Report {
        backend,
        preset,
        compute,
        steps,
        ..
    } = report;
    let steps = match steps {
        1 => "1 step".into(),
        steps => format!("{steps} steps"),
    };
    format!("Precision report: {steps} of preset {preset} in {compute} on {backend}")
}

/// What a reader wants to know first.
pub(super) fn headlines(report: &Report) -> Vec<String> {
    let totals = report.totals();
    let per_step = |total| number(report.per_step(total));
    let mut lines = vec![
        format!("{} calls per step", per_step(totals.calls)),
        format!(
            "{} casts per step, which move {}",
            per_step(totals.casts),
            bytes(report.per_step(totals.cast_bytes))
        ),
    ];
    if totals.flops > 0 {
        lines.push(format!(
            "{} of the {} of matrix products, convolutions and attention per forward pass in half precision",
            percent(totals.low_flops, totals.flops),
            flops(report.per_step(totals.flops))
        ));
    }
    lines.push(match report.kept_bytes() {
        Some(kept) => format!(
            "{} kept for the backward pass when it begins",
            bytes(report.per_step(kept))
        ),
        None => {
            "this backend cannot tell what the graph keeps for the backward pass; Flex can".into()
        }
    });
    let sample = totals.sample;
    if sample.values > 0 {
        lines.push(format!(
            "of {} sampled values in casts to half precision {} overflow, and {} become 0",
            sample.values,
            share(sample.overflowed, sample.values),
            share(sample.flushed, sample.values)
        ));
    }
    lines
}

/// The title of the advice.
pub(super) const ADVICE: &str = "Advice";

/// What to change, a sentence each.
pub(super) fn advice(report: &Report) -> Vec<String> {
    report.advice().iter().map(ToString::to_string).collect()
}

pub(super) fn report(report: &Report) -> String {
    let mut text = format!("{}\n\n", title(report));
    for line in headlines(report) {
        text.push_str(&format!("  {line}\n"));
    }
    let advice = advice(report);
    if !advice.is_empty() {
        text.push_str(&format!("\n{ADVICE}\n"));
    }
    for advice in advice {
        text.push_str(&format!("  {advice}\n"));
    }
    for section in sections(report) {
        text.push_str(&format!("\n{}\n{}\n", section.title, section.about));
        text.push_str(&aligned(&section));
    }
    text
}

fn aligned(section: &Section) -> String {
    let rows: Vec<_> = std::iter::once(&section.header)
        .chain(&section.rows)
        .collect();
    let lines = columns(&rows, |column| section.numbers[column]).into_iter();
    lines
        .map(|line| format!("  {line}").trim_end().to_owned() + "\n")
        .collect()
}
