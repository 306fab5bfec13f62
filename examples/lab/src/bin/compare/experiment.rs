//! One run after the other, and what is written of them.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
};

use anyhow::{Context, Result};
use burn_amp::{Kernels, SetupError};

use crate::{
    cli::Args,
    half_batch,
    machine::Machine,
    plan::Plan,
    plot,
    precision::Precision,
    run::{Record, Run},
    steps_csv,
    summary::{LeftOut, Summary},
    training::Train,
    verdict::{self, Circumstances},
};

/// Makes the experiment that the command line asks for, and writes and prints what came of it.
///
/// All runs are on the calling thread: CubeCL keeps a memory pool per stream, and a thread is a stream.
///
/// # Errors
///
/// If there is nothing to train, a precision was asked for that the device does not offer, or the output cannot be
/// written. A run that goes wrong is a result.
pub fn run<P: Kernels>(args: &Args, machine: &Machine) -> Result<Summary> {
    let plan = Plan::new(args)?;
    let device = P::Device::default();
    let out = args.out();
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;

    let (precisions, left_out) = offered::<P>(args, &device)?;
    // What panics here panics in the runs again, and is reported there.
    let half = bench_machine::panics::caught(|| half_batch::seconds_per_step::<P>(&plan, &device));
    P::memory_cleanup(&device);
    let mut runs = Vec::new();
    for (precision, seed) in schedule(args, &precisions) {
        let run = train::<P>(&plan, machine, &device, precision, seed);
        write_steps(&out, &run, plan.steps_per_epoch)?;
        runs.push(run);
        P::memory_cleanup(&device);
    }

    let (shapes, loss_ranks) = plan.describe::<P>(&device);
    let circumstances = Circumstances {
        loss_ranks,
        shapes: shapes.clone(),
        fixed_share: fixed_share(&runs, half.ok().transpose()?.flatten()),
        rounds_f32: machine.rounds_f32,
    };
    let hardware = |precision: Precision| machine.hardware::<P>(&device, precision.dtype());
    let summary = Summary {
        fixed_share: circumstances.fixed_share,
        left_out,
        verdict: verdict::judge(&runs, &circumstances, hardware),
        ..Summary::new(&plan, machine.backend, shapes, &runs)
    };
    write_summary(&out, &summary)?;
    let picture = out.join("curves.svg");
    let title = format!(
        "{} ({}) on {}",
        summary.model, summary.size, summary.backend
    );
    plot::draw(&picture, &title, &runs).with_context(|| picture.display().to_string())?;
    println!(
        "\n{summary}\n{} and the rest of it: {}",
        picture.display(),
        out.display()
    );
    Ok(summary)
}

/// The precisions to train in, their policies in force, and those that were not asked for and the device does not offer.
fn offered<P: Kernels>(
    args: &Args,
    device: &P::Device,
) -> Result<(Vec<Precision>, Vec<LeftOut>), SetupError> {
    let (mut offered, mut left_out) = (Vec::new(), Vec::new());
    for precision in args.precisions() {
        match precision.init::<P>(device) {
            Ok(()) => offered.push(precision),
            Err(error @ SetupError::UnsupportedDtype { .. }) if args.precision.is_empty() => {
                let reason = error.to_string();
                left_out.push(LeftOut { precision, reason });
            }
            Err(error) => return Err(error),
        }
    }
    Ok((offered, left_out))
}

/// F32 with every seed, the others with the first one.
fn schedule(args: &Args, precisions: &[Precision]) -> Vec<(Precision, u32)> {
    let last = |precision| match precision {
        Precision::F32 => args.seed.saturating_add(args.seeds),
        Precision::Bf16 | Precision::F16 => args.seed.saturating_add(1),
    };
    let runs = precisions.iter().flat_map(|precision| {
        let seeds = args.seed..last(*precision);
        seeds.map(|seed| (*precision, seed))
    });
    runs.collect()
}

fn train<P: Kernels>(
    plan: &Plan,
    machine: &Machine,
    device: &P::Device,
    precision: Precision,
    seed: u32,
) -> Run {
    let mut record = Record::default();
    let on_epoch = |record: &Record| println!("{}", progress(plan, precision, seed, record));
    let train = Train::<P> {
        plan,
        device,
        meter: &machine.meter,
        seed,
        record: &mut record,
        on_epoch: &on_epoch,
    };
    let outcome = precision.with::<P, _>(device, train);
    Run {
        precision,
        seed,
        record,
        outcome,
    }
}

/// A line after an epoch.
fn progress(plan: &Plan, precision: Precision, seed: u32, record: &Record) -> String {
    let epoch = record.steps.len() / plan.steps_per_epoch;
    let loss = record.steps.last().map_or(f64::NAN, |step| step.loss);
    let validation = record.validations.last().map(|validation| {
        let accuracy = validation
            .accuracy
            .map(|share| format!("  accuracy {:.1} %", 100.0 * share));
        format!(
            "  validation loss {:.4}{}",
            validation.loss,
            accuracy.unwrap_or_default()
        )
    });
    format!(
        "{precision:<4} seed {seed}  epoch {epoch}/{}  train loss {loss:.4}{}",
        plan.epochs,
        validation.unwrap_or_default(),
    )
}

/// Of a step of F32 that takes `half` seconds on half the batch; `None` without such a run.
fn fixed_share(runs: &[Run], half: Option<f64>) -> Option<f64> {
    let baseline = runs.iter().find(|run| run.precision == Precision::F32)?;
    Some(half_batch::fixed_share(baseline.seconds_per_step()?, half?))
}

fn write_steps(out: &Path, run: &Run, steps_per_epoch: usize) -> Result<()> {
    let path = out.join(format!("{}.csv", run.name()));
    let context = || path.display().to_string();
    let file = File::create(&path).with_context(context)?;
    steps_csv::write(BufWriter::new(file), &run.record, steps_per_epoch).with_context(context)
}

fn write_summary(out: &Path, summary: &Summary) -> Result<()> {
    let json = serde_json::to_string_pretty(summary)?;
    for (name, text) in [("summary.json", json), ("summary.md", summary.to_string())] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use burn::backend::Flex;
    use clap::Parser;

    use super::*;
    use crate::summary::Line;

    /// Seed and loss scale are those of the process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn one_at_a_time() -> MutexGuard<'static, ()> {
        ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn experiment(out: &Path, arguments: &str) -> Summary {
        let out = ["compare", "--model", "mlp", "--out", out.to_str().unwrap()];
        let args = Args::parse_from(out.into_iter().chain(arguments.split_whitespace()));
        run::<Flex>(&args, &Machine::flex()).unwrap()
    }

    fn rows(out: &Path, line: &Line) -> Vec<Vec<String>> {
        let text = fs::read_to_string(out.join(&line.csv)).unwrap();
        let rows = text.lines().skip(1);
        rows.map(|row| row.split(',').map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn all_precisions_learn_from_the_same_weights_and_are_reported() {
        let _alone = one_at_a_time();
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let summary = experiment(
            out,
            "--epochs 2 --steps-per-epoch 60 --seeds 2 --batch-size 32 --validation-items 64 --learning-rate 2e-3",
        );

        let names: Vec<&str> = summary.runs.iter().map(|line| line.csv.as_str()).collect();
        let expected = [
            "f32-seed42.csv",
            "f32-seed43.csv",
            "bf16-seed42.csv",
            "f16-seed42.csv",
        ];
        assert_eq!(names, expected);
        let mut untrained = Vec::new();
        for line in &summary.runs {
            assert_eq!((line.outcome.as_str(), line.steps), ("finished", 120));
            assert!(line.seconds_per_epoch.unwrap() > 0.0 && line.peak_memory_bytes.unwrap() > 0);
            assert!(line.non_finite.is_empty() && line.skipped_steps == 0);

            let rows = rows(out, line);
            let number = |row: usize, column: usize| rows[row][column].parse::<f64>().unwrap();
            assert_eq!(rows.len(), 1 + 120);
            assert_eq!(Some(number(120, 3)), line.validation_loss);
            assert!(
                number(120, 3) < 0.8 * number(0, 3),
                "{}: {:?}",
                line.csv,
                line.validation_loss
            );
            assert!(line.validation_accuracy.unwrap() > 0.5);
            let scale = match line.precision {
                Precision::F32 | Precision::Bf16 => 1.0,
                Precision::F16 => 65536.0,
            };
            assert_eq!(number(1, 5), scale, "{}", line.csv);
            untrained.push(number(0, 3));
        }
        let [first, other_seed, bf16, f16] = untrained[..] else {
            panic!("{untrained:?}");
        };
        assert!(
            (first - bf16).abs() < 2e-3 && (first - f16).abs() < 2e-3,
            "{untrained:?}"
        );
        assert!((first - other_seed).abs() > 2e-3, "{untrained:?}");
        assert_ne!(first, bf16);

        assert_eq!(summary.verdict[0].headline, "learned.");
        for judgement in &summary.verdict[1..] {
            let text = judgement.to_string();
            assert!(
                text.contains("as good") && text.contains("emulates"),
                "{text}"
            );
        }
        let read = |name| fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(read("summary.md"), summary.to_string());
        let json: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
        assert_eq!(json["runs"][2]["precision"], "bf16");
        assert_eq!(
            json["runs"][2]["validation_loss"],
            summary.runs[2].validation_loss.unwrap()
        );
        assert!(read("curves.svg").contains("bf16, seed 42"));
    }

    #[test]
    fn runs_that_go_non_finite_are_reported_and_cost_no_others() {
        let _alone = one_at_a_time();
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let lost = "--epochs 1 --steps-per-epoch 30 --seeds 1 --learning-rate 1e30";
        // The second time the loss scale starts from 65536 again.
        for summary in [experiment(out, lost), experiment(out, lost)] {
            let [f32, bf16, f16] = &summary.runs[..] else {
                panic!("{:?}", summary.runs);
            };
            // The first update takes the weights to 1e30.
            for line in [f32, bf16] {
                assert_eq!((line.outcome.as_str(), line.steps), ("non-finite", 2));
                let places = line
                    .non_finite
                    .iter()
                    .map(|seen| (seen.place.as_str(), seen.first_step));
                let expected = [
                    ("the loss", 2),
                    ("6 parameters, the first of them layers.0.weight", 2),
                ];
                assert_eq!(places.collect::<Vec<_>>(), expected);
                assert_eq!(line.validation_loss, None);
                let loss: f64 = rows(out, line)[2][2].parse().unwrap();
                assert!(!loss.is_finite());
            }
            // 2^16 is halved 16 times, and then it cannot fall any more.
            assert!(
                f16.outcome.contains("overflow at the minimum 1"),
                "{}",
                f16.outcome
            );
            assert_eq!((f16.steps, f16.skipped_steps), (17, 16));
            assert_eq!(f16.non_finite[0].loss_scale, 65536.0);
            assert!(
                f16.non_finite[1]
                    .place
                    .contains("nearest to the loss layers.2.bias")
            );

            let headlines = summary
                .verdict
                .iter()
                .map(|judgement| judgement.headline.as_str());
            let expected = [
                "went wrong itself, so there is nothing to judge by.",
                "cannot train this model as it is set up here.",
                "cannot train this model as it is set up here.",
            ];
            assert_eq!(headlines.collect::<Vec<_>>(), expected);
        }
    }
}
