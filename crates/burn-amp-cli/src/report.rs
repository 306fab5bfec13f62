//! `burn-amp report`: shows a precision report, or what differs between two.

use std::{fs, path::Path};

use burn_amp_core::report::{Difference, Report, differences};
use serde_json::{Value, json};

use crate::{args::ReportArgs, failure::Failure, input};

pub fn run(args: &ReportArgs, as_json: bool) -> Result<String, Failure> {
    let report = read(&args.file)?;
    match &args.other {
        Some(other) => compare(&report, &read(other)?, as_json),
        None => show(&report, args, as_json),
    }
}

/// Reads a precision report.
pub fn read(file: &Path) -> Result<Report, Failure> {
    let text = input::text(file, "the JSON file of a precision report")?;
    Report::from_json(&text).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

fn show(report: &Report, args: &ReportArgs, as_json: bool) -> Result<String, Failure> {
    if let Some(page) = &args.html {
        fs::write(page, report.to_html())
            .map_err(|error| Failure::Usage(format!("{}: {error}", page.display())))?;
        return Ok(match as_json {
            true => format!("{}\n", json!({ "file": page })),
            false => format!("{} written.\n", page.display()),
        });
    }
    Ok(match (args.snapshot, as_json) {
        (true, true) => {
            let snapshot = report.snapshot();
            let lines: Vec<_> = snapshot
                .lines()
                .filter(|line| !line.starts_with('#'))
                .collect();
            format!("{:#}\n", json!(lines))
        }
        (true, false) => report.snapshot(),
        (false, true) => report.to_json() + "\n",
        (false, false) => report.to_text(),
    })
}

/// Differences are what was checked being wrong, so that a script notices them.
fn compare(before: &Report, after: &Report, as_json: bool) -> Result<String, Failure> {
    let differences = differences(before, after);
    if differences.is_empty() {
        return Ok(match as_json {
            true => "[]\n".into(),
            false => "The same ops ran in the same precision, with the same casts.\n".into(),
        });
    }
    Err(Failure::Differs(match as_json {
        true => format!("{:#}\n", differences.iter().map(to_json).collect::<Value>()),
        false => text(&differences, before, after),
    }))
}

fn text(differences: &[Difference], before: &Report, after: &Report) -> String {
    let mut text = String::from(
        "Per step, by function, op and dtypes: + only in the second report, - only in the first\n\n",
    );
    for difference in differences {
        text.push_str(&format!("{difference}\n"));
    }
    let [old, new] = [before, after].map(|report| {
        let totals = report.totals();
        let steps = report.steps.max(1) as f64;
        (
            totals.casts as f64 / steps,
            totals.cast_bytes as f64 / steps,
        )
    });
    text.push_str(&format!(
        "\n{} differences; casts per step {:.1} -> {:.1}, bytes cast per step {:.0} -> {:.0}\n",
        differences.len(),
        old.0,
        new.0,
        old.1,
        new.1
    ));
    if let [Some(old), Some(new)] = [before, after].map(kept_per_step) {
        text.push_str(&format!(
            "bytes kept for the backward pass {old:.0} -> {new:.0}\n"
        ));
    }
    text
}

fn kept_per_step(report: &Report) -> Option<f64> {
    Some(report.kept_bytes()? as f64 / report.steps.max(1) as f64)
}

fn to_json(difference: &Difference) -> Value {
    let count = |count: Option<burn_amp_core::report::Count>| {
        count.map(|count| json!({ "calls": count.calls, "casts": count.casts }))
    };
    json!({
        "what": difference.what,
        "before": count(difference.before),
        "after": count(difference.after),
    })
}
