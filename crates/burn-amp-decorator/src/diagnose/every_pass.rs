//! The report that `[report]` in `amp.toml` asks for.

use std::{collections::HashMap, fs, sync::LazyLock};

use burn_amp_core::report::Report;
use burn_backend::Backend;
use parking_lot::Mutex;

use super::recorder::Recording;
use crate::{policy::Context, warn::Warning};

/// The recordings under way, by the address of their context.
static UNDER_WAY: LazyLock<Mutex<HashMap<usize, Recording>>> = LazyLock::new(Default::default);

/// Begins the report that the configuration asks for after the first backward pass, and ends it some steps later. Called
/// at the beginning of each backward pass.
///
/// The first step is left out, because it does what later steps need not do again.
#[inline]
pub(crate) fn begins<B: Backend>(context: &'static Context<B>, backend: impl FnOnce() -> String) {
    let steps = u64::from(context.config.report.steps);
    let pass = context.leaves.passes();
    if steps == 0 || pass > steps {
        return;
    }
    let address = std::ptr::from_ref(context).addr();
    if pass == 0 {
        let recording = Recording::begin(context, &backend(), context.config.report.samples);
        UNDER_WAY.lock().insert(address, recording);
    } else if pass == steps {
        let recording = UNDER_WAY.lock().remove(&address);
        if let Some(recording) = recording {
            write(&recording.finish(), &context.config.report.output);
        }
    }
}

/// Prints a report to standard error and writes its files.
fn write(report: &Report, file: &str) {
    static FILES: Warning = Warning::new("a-report-that-cannot-be-written");

    eprintln!("{}", report.to_text());
    for (ending, text) in [
        ("json", report.to_json()),
        ("html", report.to_html()),
        ("txt", report.snapshot()),
    ] {
        let path = format!("{file}.{ending}");
        if let Err(error) = fs::write(&path, text) {
            FILES.give(|| format!("report.output: cannot write {path}: {error}"));
        }
    }
    tracing::info!("burn-amp: precision report written to {file}.json, .html and .txt");
}
