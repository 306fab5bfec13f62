//! A report as sorted lines, for a test.

use std::collections::BTreeMap;

use super::{Calls, Report, units::number};

const HEADER: &str = "\
# What ran in which precision: function, op, dtypes of operands -> of the computation -> of the result, calls per step,
# casts per step.
";

/// One line for each op at each function, sorted. Lines and shapes are left out, so that they may change.
pub(super) fn lines(report: &Report) -> String {
    let mut lines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for calls in &report.calls {
        let function = calls.site.as_ref().map_or("?", |site| &site.function);
        let line = format!("{function}  {}  {}", calls.op, calls.dtypes());
        let (count, casts) = lines.entry(line).or_default();
        *count += calls.count;
        *casts += made(calls);
    }
    let mut text = HEADER.to_owned();
    for (line, (count, casts)) in lines {
        let count = number(report.per_step(count));
        text.push_str(&format!("{line}  x{count}"));
        if casts > 0 {
            let casts = number(report.per_step(casts));
            text.push_str(&format!("  casts {casts}"));
        }
        text.push('\n');
    }
    text
}

fn made(calls: &Calls) -> u64 {
    calls.casts.iter().map(|cast| cast.made).sum()
}
