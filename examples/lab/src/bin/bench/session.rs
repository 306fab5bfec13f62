//! One run after the other.

use std::time::{Duration, Instant};

use anyhow::Result;
use burn_amp::{AmpBackend, config::Config};
use lab::{
    entry::{Entry, Lines},
    machine::Machine,
    panics,
};

use crate::{
    budget::Budget,
    cli::RunArgs,
    measure::{Measure, Setting, Stop},
    plan::{Run, plan},
    progress::Progress,
};

/// Measures the runs that the command line asks for, and returns their entries.
///
/// All runs are on the calling thread: CubeCL keeps a memory pool per stream, and a thread is a stream.
///
/// # Errors
///
/// Returns an error if the output cannot be written. A run that fails is an entry with an error.
pub fn run<P: AmpBackend>(args: &RunArgs, machine: &Machine) -> Result<Vec<Entry>> {
    let mut lines = Lines::append_to(args.out.as_deref())?;
    let runs = plan(args);
    let progress = Progress::new(runs.len(), args.warmup + args.steps.get());
    let setting = Setting::<P> {
        device: &P::Device::default(),
        machine,
        budget: Budget::new(args.budget_seconds),
        warmup: args.warmup,
        steps: args.steps.get(),
        on_step: &|| progress.step(),
    };
    let mut entries = Vec::new();
    // The longest set-up of a run so far is the only estimate of the next one.
    let mut slowest_setup = Duration::ZERO;
    for (index, run) in runs.iter().enumerate() {
        let start = Instant::now();
        progress.start(run);
        let has_time = setting.budget.allows(slowest_setup);
        let Some(entry) = has_time.then(|| measure(&setting, run)).flatten() else {
            progress.finish();
            eprintln!("{}", left_out(args, &runs[index..]));
            return Ok(entries);
        };
        P::memory_cleanup(setting.device);
        lines.write(&entry)?;
        let line = format!("[{}/{}] {run}: {entry}", index + 1, runs.len());
        progress.end(index, &line);

        let timed = entry.step_ms_median.unwrap_or(0.0) / 1e3 * entry.steps as f64;
        let timed = Duration::try_from_secs_f64(timed).unwrap_or(Duration::ZERO);
        slowest_setup = slowest_setup.max(start.elapsed().saturating_sub(timed));
        entries.push(entry);
    }
    progress.finish();
    Ok(entries)
}

/// Measures a run. Returns an entry even if it fails; `None` if the budget ends.
fn measure<P: AmpBackend>(setting: &Setting<'_, P>, run: &Run) -> Option<Entry> {
    let mut entry = run.entry(setting.machine, setting.warmup);
    let outcome = panics::caught(|| {
        let measure = Measure {
            setting,
            run,
            entry: &mut entry,
        };
        let policy = Config::default();
        run.precision.with::<P, _>(setting.device, &policy, measure)
    });
    match outcome {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(Stop::OutOfTime(_)))) => return None,
        Ok(Ok(Err(Stop::Device(error)))) => entry.error = Some(format!("device: {error}")),
        Ok(Err(error)) => entry.error = Some(error.to_string()),
        Err(panic) => entry.error = Some(format!("panic: {panic}")),
    }
    Some(entry)
}

fn left_out(args: &RunArgs, runs: &[Run]) -> String {
    let seconds = args.budget_seconds.unwrap_or(f64::INFINITY);
    let runs: Vec<String> = runs.iter().map(Run::to_string).collect();
    format!("{seconds} s are spent, left out: {}", runs.join("; "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use burn::backend::Flex;
    use clap::Parser;
    use lab::{entry::read_all, precision::Precision};

    use super::*;
    use crate::cli::Args;

    /// The fields of a line of JSON, see `examples/lab/pytorch/README.md`.
    const FIELDS: usize = 22;

    /// Runs a session and reads the file that it wrote.
    fn measured(arguments: &[&str]) -> Vec<Entry> {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out.jsonl");
        let arguments = ["bench", "--size", "tiny", "--out", out.to_str().unwrap()]
            .into_iter()
            .chain(arguments.iter().copied());
        let args = Args::parse_from(arguments).run;
        let entries = run::<Flex>(&args, &Machine::flex()).unwrap();
        for line in fs::read_to_string(&out).unwrap().lines() {
            let fields: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(fields.as_object().unwrap().len(), FIELDS, "{line}");
        }
        let written = read_all(&[out]).unwrap();
        assert_eq!(written.len(), entries.len());
        written
    }

    #[test]
    fn a_model_is_measured_in_every_precision() {
        let entries = measured(&["--model", "mlp", "--steps", "2", "--warmup", "1"]);
        let names: Vec<_> = entries.iter().map(|entry| &entry.precision).collect();
        assert_eq!(names, Precision::ALL.map(Precision::name));
        for entry in &entries {
            let precision = entry.precision.as_str();
            assert_eq!(entry.error, None, "{precision}");
            let names = [&entry.model, &entry.size, &entry.framework, &entry.backend];
            assert_eq!(names, ["mlp", "tiny", "burn-amp", "flex"]);
            assert!(!entry.device.is_empty());
            assert_eq!((entry.warmup, entry.steps, entry.batch_size), (1, 2, 8));
            assert_eq!(
                entry.params,
                Some(784 * 32 + 32 + 32 * 24 + 24 + 24 * 10 + 10)
            );
            assert_eq!(entry.shape, Some(vec![8, 784]));
            let times = [entry.step_ms_p10, entry.step_ms_median, entry.step_ms_p90];
            let [p10, median, p90] = times.map(Option::unwrap);
            assert!(0.0 < p10 && p10 <= median && median <= p90);
            assert!((entry.items_per_s.unwrap() * median / 8e3 - 1.0).abs() < 1e-12);
            assert_eq!(entry.peak_memory_bytes, None);
            let [first, last] = [entry.loss_first, entry.loss_last].map(Option::unwrap);
            assert!(first > last && last > 0.0, "{precision}: {first} {last}");
            assert_eq!(entry.skipped_steps, Some(0), "{precision}");
            let scale = match precision {
                // The search for the scale starts at 16 and doubles in each of the three steps.
                "amp-f16" => 128.0,
                "amp-f16-static-128" => 128.0,
                _ => 1.0,
            };
            assert_eq!(entry.loss_scale, Some(scale), "{precision}");
        }
        let losses: Vec<_> = entries.iter().map(|entry| entry.loss_last).collect();
        assert_ne!(losses[0], losses[1], "bf16 computes something else");
        assert!(
            entries.iter().all(|entry| {
                (entry.loss_first.unwrap() - entries[0].loss_first.unwrap()).abs() < 0.02
            }),
            "all start from the same weights: {losses:?}"
        );
    }

    #[test]
    fn a_run_that_panics_is_an_entry_and_the_next_one_is_measured() {
        let long = "bert:seq_len=33"; // one position more than there are
        let short = ["--precision", "f32", "--steps", "1", "--warmup", "0"];
        let entries = measured(&[&["--models", long, "mlp"], &short[..]].concat());
        let [failed, next] = entries.as_slice() else {
            panic!("{entries:?}");
        };
        let error = failed.error.as_deref().unwrap();
        assert!(error.starts_with("panic: ") && error.len() > 20, "{error}");
        assert_eq!(failed.steps, 0);
        assert_eq!((next.steps, &next.error), (1, &None));
    }

    #[test]
    fn nothing_is_measured_without_time() {
        let entries = measured(&["--models", "mlp", "--budget-seconds", "0"]);
        assert_eq!(entries, []);
    }
}
