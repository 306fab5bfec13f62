//! `burn-amp tune`: proposes an `amp.toml` from a precision report and a shadow comparison.

use burn_amp_core::{shadow::ShadowReport, tune::tuned};
use serde_json::{Value, json};

use crate::{args::TuneArgs, failure::Failure, input, report};

pub fn run(args: &TuneArgs, as_json: bool) -> Result<String, Failure> {
    let TuneArgs {
        report,
        shadow,
        tolerance,
    } = args;
    let report = report::read(report)?;
    let text = input::text(shadow, "the JSON file of a shadow comparison")?;
    let shadow = ShadowReport::from_json(&text).map_err(|error| {
        Failure::Usage(format!(
            "{}: not the report of a shadow comparison: {error}",
            shadow.display()
        ))
    })?;
    let tuned = tuned(&shadow, &report, *tolerance);
    if !as_json {
        return Ok(tuned.to_string());
    }
    let ops = tuned.ops.iter().map(|(op, proposal)| {
        json!({
            "op": op.name(),
            "class": proposal.class().map(|class| class.name()),
            "worst": proposal.worst,
            "place": proposal.place,
            "more_bytes": proposal.more_bytes,
            "flops": proposal.flops,
        })
    });
    Ok(format!("{:#}\n", ops.collect::<Value>()))
}
