//! The tables of a report.

use super::{
    Report, Why,
    health::series,
    place,
    units::{bytes, flops, number, percent, share},
};
use crate::Precision;

/// The number of rows of a list of the largest.
const SHOWN: usize = 10;

/// A table with a title, and a sentence that explains it.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether each column holds numbers, which are aligned to the right.
    pub(super) numbers: Vec<bool>,
}

impl Section {
    /// A table under a header such as `op | >calls`, in which `>` marks a column of numbers.
    fn new(
        title: &'static str,
        about: &'static str,
        header: &str,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let names = header.split(" | ");
        Self {
            title,
            about,
            header: names
                .clone()
                .map(|name| name.trim_start_matches('>').into())
                .collect(),
            rows: rows.into_iter().collect(),
            numbers: names.map(|name| name.starts_with('>')).collect(),
        }
    }
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
        backward(report),
        in_f32(report),
        kept_by_op(report),
        kept(report),
        casts(report),
        lost(report),
        idle(report),
        health(report),
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

fn ops(
    report: &Report,
    title: &'static str,
    about: &'static str,
    are_of: impl Fn(&Why) -> bool,
) -> Section {
    let totals = report.totals_of(|calls| are_of(&calls.why));
    let dtypes: Vec<_> = Precision::ALL
        .into_iter()
        .filter(|dtype| totals.ops.values().any(|op| op.calls.contains_key(dtype)))
        .collect();
    let names: String = dtypes
        .iter()
        .map(|dtype| format!(" | >{}", dtype.name()))
        .collect();
    let header = format!("op | >calls{names} | >casts | >cast | >reads and writes | >work");
    let mut ops: Vec<_> = totals.ops.iter().collect();
    ops.sort_by(|(a_name, a), (b_name, b)| b.bytes.cmp(&a.bytes).then(a_name.cmp(b_name)));
    let or_empty = |total: u64, in_words: fn(f64) -> String| match total {
        0 => String::new(),
        _ => in_words(report.per_step(total)),
    };
    let rows = ops.into_iter().map(|(name, op)| {
        let mut row = vec![name.clone(), number(report.per_step(op.all_calls()))];
        row.extend(dtypes.iter().map(|dtype| {
            let calls = op.calls.get(dtype).copied().unwrap_or_default();
            or_empty(calls, number)
        }));
        row.extend([
            or_empty(op.casts, number),
            or_empty(op.cast_bytes, bytes),
            or_empty(op.bytes, bytes),
            or_empty(op.flops, flops),
        ]);
        row
    });
    Section::new(title, about, &header, rows)
}

fn backward(report: &Report) -> Section {
    let rows = report.gradients_by_op().into_iter();
    let rows = rows.map(|((op, dtype), count, size)| {
        vec![
            op.to_owned(),
            dtype.to_owned(),
            number(report.per_step(count)),
            bytes(report.per_step(size)),
        ]
    });
    Section::new(
        "Backward passes of ops",
        "The gradients of results with which they began, per step, by the dtype in which they were. One in f32 of an op that \
         computed in half precision comes from a reader in f32.",
        "backward of | gradient | >calls | >reads",
        rows,
    )
}

fn in_f32(report: &Report) -> Section {
    let rows = report.largest_in_f32(SHOWN).into_iter().map(|calls| {
        vec![
            calls.op.clone(),
            calls.place(),
            calls.dtypes(),
            bytes(report.per_step(calls.bytes)),
            calls.why.in_words(),
        ]
    });
    Section::new(
        "In f32 on the hot path",
        "What computes in f32 although the compute dtype is lower, by the bytes that it moves per step, and why.",
        "op | at | dtypes | >moves | why",
        rows,
    )
}

fn kept_by_op(report: &Report) -> Section {
    let all = report.kept_bytes().unwrap_or_default();
    let rows = report.kept_by_op().into_iter().map(|(op, count, kept)| {
        vec![
            op.to_owned(),
            number(report.per_step(count)),
            bytes(report.per_step(kept)),
            percent(kept, all),
        ]
    });
    Section::new(
        "Kept for the backward pass, by op",
        "Tensors that an op made and that are still in use when the backward pass begins, per step. A cast counts for the \
         op that needed it.",
        "op | >tensors | >keeps | >share",
        rows,
    )
}

fn kept(report: &Report) -> Section {
    let rows = report.largest_kept(SHOWN).into_iter().map(|kept| {
        vec![
            kept.op.clone(),
            place(&kept.site),
            format!("{} {:?}", kept.dtype, kept.shape),
            number(report.per_step(kept.count)),
            bytes(report.per_step(kept.bytes)),
        ]
    });
    Section::new(
        "Largest tensors kept for the backward pass",
        "Tensors of one shape that ops at one place made, by their bytes per step.",
        "op | at | tensor | >tensors | >keeps",
        rows,
    )
}

fn casts(report: &Report) -> Section {
    let rows = report
        .largest_casts(SHOWN)
        .into_iter()
        .map(|(calls, cast)| {
            vec![
                calls.op.clone(),
                calls.place(),
                format!("{} -> {}", cast.from, cast.to),
                number(report.per_step(cast.made)),
                number(report.per_step(cast.shared)),
                bytes(report.per_step(cast.bytes)),
                calls.shapes_in_words(),
            ]
        });
    Section::new(
        "Most expensive casts",
        "By the bytes that they read and write per step. A cast that other uses share is made once.",
        "for | at | cast | >made | >shared | >moves | operands",
        rows,
    )
}

fn lost(report: &Report) -> Section {
    let rows = report.most_lost(SHOWN).into_iter().map(|(calls, cast)| {
        let sample = cast.sample;
        vec![
            calls.op.clone(),
            calls.place(),
            format!("{} -> {}", cast.from, cast.to),
            sample.values.to_string(),
            share(sample.overflowed, sample.values),
            share(sample.flushed, sample.values),
        ]
    });
    Section::new(
        "Values lost in casts",
        "Of a sample: those beyond the range of the dtype, which are inf, and those below it, which are 0.",
        "for | at | cast | >sampled | >overflow | >become 0",
        rows,
    )
}

fn health(report: &Report) -> Section {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let series = series(&report.health).into_iter().take(SHOWN);
    let rows = series.filter_map(|(name, steps)| {
        let (step, shares) = steps.last()?;
        let mut row = vec![name.to_owned(), step.to_string()];
        row.extend(
            [
                shares.lost,
                shares.zero,
                shares.subnormal,
                shares.near_limit,
            ]
            .map(percent),
        );
        Some(row)
    });
    Section::new(
        "Health of parameters",
        "At the last step that was looked at: updates that rounding swallowed, and elements of the gradient that are 0, have \
         lost bits below the smallest normal number of the compute dtype, or are within a factor 4 of its largest.",
        "parameter | >step | >lost | >zero | >subnormal | >near limit",
        rows,
    )
}

fn idle(report: &Report) -> Section {
    let rows = report.idle(SHOWN).into_iter().map(|calls| {
        let sizes = calls.idle_dimensions().into_iter();
        let sizes: Vec<_> = sizes
            .map(|(name, size)| format!("{name} = {size}"))
            .collect();
        vec![
            calls.op.clone(),
            calls.place(),
            calls.shapes_in_words(),
            sizes.join(", "),
            flops(report.per_step(calls.flops)),
        ]
    });
    Section::new(
        "Dimensions that leave tensor cores idle",
        "Tensor cores read 16 bytes at a time: dimensions of a product in half precision should be multiples of 8.",
        "op | at | operands | no multiple of 8 | >work",
        rows,
    )
}
