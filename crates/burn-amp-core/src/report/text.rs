//! A report as tables: for a terminal, and as the parts of a page.

use super::{
    Report, Why, place,
    units::{bytes, flops, number, percent},
};
use crate::Precision;

/// The number of rows of a list of the largest.
const SHOWN: usize = 10;

/// A table with a title, and a sentence that explains it.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) about: String,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether each column holds numbers, which are aligned to the right.
    pub(super) numbers: Vec<bool>,
}

impl Section {
    fn new(title: &'static str, about: &str, header: &[(&str, bool)]) -> Self {
        Self {
            title,
            about: about.into(),
            header: header.iter().map(|(name, _)| (*name).into()).collect(),
            rows: Vec::new(),
            numbers: header.iter().map(|(_, is_number)| *is_number).collect(),
        }
    }
}

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

/// A share of values, of which few may be lost: with two digits.
fn share(part: u64, whole: u64) -> String {
    match part {
        0 => "none".into(),
        _ => format!("{:.2} %", 100.0 * part as f64 / whole as f64),
    }
}

/// The title of the advice.
pub(super) const ADVICE: &str = "Advice";

/// What to change, a sentence each.
pub(super) fn advice(report: &Report) -> Vec<String> {
    report.advice().iter().map(ToString::to_string).collect()
}

/// The tables of a report; those without rows are left out.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let mut sections = vec![
        ops(
            report,
            "Ops of the model",
            "Calls per step by the dtype in which they computed, casts made for them, and the bytes that each moves. A view, \
             or a part of a norm, that waits for its reader moves nothing itself.",
            |why| !why.is_of_optimizer(),
        ),
        in_f32(report),
        kept_by_op(report),
        kept(report),
        casts(report),
        lost(report),
        idle(report),
        ops(
            report,
            "Ops of the optimizer",
            "Ops on gradients, and on parameters outside a graph.",
            Why::is_of_optimizer,
        ),
    ];
    sections.retain(|section| !section.rows.is_empty());
    sections
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
    let all: Vec<_> = std::iter::once(&section.header)
        .chain(&section.rows)
        .collect();
    let width = |column: usize| {
        let cells = all.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..section.header.len()).map(width).collect();
    let mut text = String::new();
    for row in all {
        let mut line = String::from(" ");
        for ((cell, width), is_number) in row.iter().zip(&widths).zip(&section.numbers) {
            line.push_str(&match is_number {
                true => format!(" {cell:>width$} "),
                false => format!(" {cell:<width$} "),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn ops(
    report: &Report,
    title: &'static str,
    about: &str,
    are_of: impl Fn(&Why) -> bool,
) -> Section {
    let totals = report.totals_of(|calls| are_of(&calls.why));
    let dtypes: Vec<_> = Precision::ALL
        .into_iter()
        .filter(|dtype| totals.ops.values().any(|op| op.calls.contains_key(dtype)))
        .collect();
    let mut header = vec![("op", false), ("calls", true)];
    header.extend(dtypes.iter().map(|dtype| (dtype.name(), true)));
    header.extend([
        ("casts", true),
        ("cast", true),
        ("reads and writes", true),
        ("work", true),
    ]);
    let mut section = Section::new(title, about, &header);
    let mut ops: Vec<_> = totals.ops.iter().collect();
    ops.sort_by(|(a_name, a), (b_name, b)| b.bytes.cmp(&a.bytes).then(a_name.cmp(b_name)));
    for (name, op) in ops {
        let per_step = |total| number(report.per_step(total));
        let or_empty = |total: u64, text: String| match total {
            0 => String::new(),
            _ => text,
        };
        let mut row = vec![name.clone(), per_step(op.all_calls())];
        row.extend(dtypes.iter().map(|dtype| {
            let calls = op.calls.get(dtype).copied().unwrap_or_default();
            or_empty(calls, per_step(calls))
        }));
        row.extend([
            or_empty(op.casts, per_step(op.casts)),
            or_empty(op.cast_bytes, bytes(report.per_step(op.cast_bytes))),
            or_empty(op.bytes, bytes(report.per_step(op.bytes))),
            or_empty(op.flops, flops(report.per_step(op.flops))),
        ]);
        section.rows.push(row);
    }
    section
}

fn in_f32(report: &Report) -> Section {
    let mut section = Section::new(
        "In f32 on the hot path",
        "What computes in f32 although the compute dtype is lower, by the bytes that it moves per step, and why.",
        &[
            ("op", false),
            ("at", false),
            ("dtypes", false),
            ("moves", true),
            ("why", false),
        ],
    );
    for calls in report.largest_in_f32(SHOWN) {
        section.rows.push(vec![
            calls.op.clone(),
            calls.place(),
            calls.dtypes(),
            bytes(report.per_step(calls.bytes)),
            calls.why.in_words(),
        ]);
    }
    section
}

fn kept_by_op(report: &Report) -> Section {
    let mut section = Section::new(
        "Kept for the backward pass, by op",
        "Tensors that an op made and that are still in use when the backward pass begins, per step. A cast counts for the \
         op that needed it.",
        &[
            ("op", false),
            ("tensors", true),
            ("keeps", true),
            ("share", true),
        ],
    );
    let all = report.kept_bytes().unwrap_or_default();
    for (op, count, kept) in report.kept_by_op() {
        section.rows.push(vec![
            op.into(),
            number(report.per_step(count)),
            bytes(report.per_step(kept)),
            percent(kept, all),
        ]);
    }
    section
}

fn kept(report: &Report) -> Section {
    let mut section = Section::new(
        "Largest tensors kept for the backward pass",
        "Tensors of one shape that ops at one place made, by their bytes per step.",
        &[
            ("op", false),
            ("at", false),
            ("tensor", false),
            ("tensors", true),
            ("keeps", true),
        ],
    );
    for kept in report.largest_kept(SHOWN) {
        section.rows.push(vec![
            kept.op.clone(),
            place(&kept.site),
            format!("{} {:?}", kept.dtype, kept.shape),
            number(report.per_step(kept.count)),
            bytes(report.per_step(kept.bytes)),
        ]);
    }
    section
}

fn casts(report: &Report) -> Section {
    let mut section = Section::new(
        "Most expensive casts",
        "By the bytes that they read and write per step. A cast that other uses share is made once.",
        &[
            ("for", false),
            ("at", false),
            ("cast", false),
            ("made", true),
            ("shared", true),
            ("moves", true),
            ("operands", false),
        ],
    );
    for (calls, cast) in report.largest_casts(SHOWN) {
        section.rows.push(vec![
            calls.op.clone(),
            calls.place(),
            format!("{} -> {}", cast.from, cast.to),
            number(report.per_step(cast.made)),
            number(report.per_step(cast.shared)),
            bytes(report.per_step(cast.bytes)),
            calls.shapes_in_words(),
        ]);
    }
    section
}

fn lost(report: &Report) -> Section {
    let mut section = Section::new(
        "Values lost in casts",
        "Of a sample: those beyond the range of the dtype, which are inf, and those below it, which are 0.",
        &[
            ("for", false),
            ("at", false),
            ("cast", false),
            ("sampled", true),
            ("overflow", true),
            ("become 0", true),
        ],
    );
    for (calls, cast) in report.most_lost(SHOWN) {
        let sample = cast.sample;
        section.rows.push(vec![
            calls.op.clone(),
            calls.place(),
            format!("{} -> {}", cast.from, cast.to),
            sample.values.to_string(),
            share(sample.overflowed, sample.values),
            share(sample.flushed, sample.values),
        ]);
    }
    section
}

fn idle(report: &Report) -> Section {
    let mut section = Section::new(
        "Dimensions that leave tensor cores idle",
        "Tensor cores read 16 bytes at a time: dimensions of a product in half precision should be multiples of 8.",
        &[
            ("op", false),
            ("at", false),
            ("operands", false),
            ("no multiple of 8", false),
            ("work", true),
        ],
    );
    for calls in report.idle(SHOWN) {
        let sizes: Vec<_> = calls
            .idle_dimensions()
            .into_iter()
            .map(|(name, size)| format!("{name} = {size}"))
            .collect();
        section.rows.push(vec![
            calls.op.clone(),
            calls.place(),
            calls.shapes_in_words(),
            sizes.join(", "),
            flops(report.per_step(calls.flops)),
        ]);
    }
    section
}
