//! One run after the other, and the files that are written.

use std::fs;

use anyhow::{Context, Result};
use burn::{backend::Autodiff, tensor::backend::AutodiffBackend};
use burn_amp::{Config, Kernels, LossScale, SetupError};
use lab::{
    machine::Machine,
    panics::caught,
    precision::{InPrecision, Precision},
    recipe::Recipe,
};
use zoo::{Net, Visitor, ZooModel};

use crate::{
    cli::Args,
    plot,
    run::{Outcome, Run},
    shapes::{Shapes, layers},
    speed::{Hardware, Model, TimeSteps, fixed_share},
    summary::Summary,
    training::Train,
    verdict::judge,
};

/// Runs the experiment that the command line asks for, and writes and prints its results.
///
/// All runs are on the calling thread: CubeCL keeps a memory pool per stream, and a thread is a stream.
///
/// # Errors
///
/// If the device does not offer a precision that was asked for, or the output cannot be written. A run that goes wrong
/// is a result.
pub fn run<P: Kernels>(args: &Args, machine: &Machine) -> Result<()> {
    let (device, out) = (P::Device::default(), args.out());
    let policy = Config::load()?;
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };

    let (precisions, left_out) = offered::<P>(args, &policy, &device)?;
    let half = seconds_of_half_batch::<P>(args, &device);
    let mut runs = Vec::new();
    for precision in precisions {
        let is_f32 = precision == Precision::F32;
        for seed in args.seed..args.seed + if is_f32 { args.seeds } else { 1 } {
            P::memory_cleanup(&device);
            let mut run = Run::new(precision, seed);
            run.outcome = train::<P>(args, machine, &policy, &device, &mut run)?;
            write(&run.file(), run.csv(args.steps_per_epoch.get()))?;
            runs.push(run);
        }
    }

    let (shapes, loss_ranks) = args.model.visit(args.size(), Describe::<P>(&device));
    let full = runs.iter().find(|run| run.precision == Precision::F32);
    let full = full.and_then(Run::seconds_per_step);
    let model = Model {
        shapes,
        loss_ranks,
        fixed_share: full.zip(half).map(|(full, half)| fixed_share(full, half)),
        rounds_f32: machine.rounds_f32,
    };
    let hardware = |precision| Hardware::of::<P>(machine, &device, precision);
    let summary = Summary {
        args,
        backend: machine.backend,
        model: &model,
        runs: &runs,
        left_out: &left_out,
        verdict: &judge(&runs, &model, hardware),
    };
    write(
        "summary.json",
        serde_json::to_string_pretty(&summary.json())?,
    )?;
    write("summary.md", summary.to_string())?;
    let picture = out.join("curves.svg");
    plot::draw(&picture, &summary.title(), &runs)?;
    println!(
        "\n{summary}\ncurves: {}; all files: {}",
        picture.display(),
        out.display()
    );
    Ok(())
}

/// The precisions that the device does not offer, each with the reason.
type LeftOut = Vec<(&'static str, String)>;

/// The precisions to train in, and those that the device does not offer and nobody asked for.
fn offered<P: Kernels>(
    args: &Args,
    policy: &Config,
    device: &P::Device,
) -> Result<(Vec<Precision>, LeftOut), SetupError> {
    let (mut offered, mut left_out) = (Vec::new(), Vec::new());
    for precision in args.precisions() {
        match precision.with_main::<P, _>(device, policy, Nothing) {
            Ok(()) => offered.push(precision),
            Err(error @ SetupError::UnsupportedDtype { .. }) if args.precision.is_empty() => {
                left_out.push((precision.name(), error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((offered, left_out))
}

/// The seconds of a step on half a batch; `None` if a batch has one item, or the steps fail, as the runs then will.
fn seconds_of_half_batch<P: Kernels>(args: &Args, device: &P::Device) -> Option<f64> {
    let items = (args.batch_size() / 2).max(1);
    let time = TimeSteps::<P> { items, device };
    let seconds = caught(|| args.model.visit(args.size(), time)).ok()?.ok()?;
    seconds.filter(|_| items < args.batch_size())
}

/// Fills the record of a run, and returns how it ended.
fn train<P: Kernels>(
    args: &Args,
    machine: &Machine,
    policy: &Config,
    device: &P::Device,
    run: &mut Run,
) -> Result<Outcome, SetupError> {
    let precision = run.precision;
    let train = Train::<P> {
        args,
        device,
        meter: &machine.meter,
        run,
    };
    match caught(|| precision.with_main::<P, _>(device, policy, train)) {
        Ok(Ok(Ok(outcome))) => Ok(outcome),
        Ok(Ok(Err(error))) => Ok(Outcome::Failed(format!("device: {error}"))),
        Ok(Err(error)) => Err(error),
        Err(panic) => Ok(Outcome::Failed(panic)),
    }
}

/// Puts a precision's policy in force and does no work.
struct Nothing;

impl<P: Kernels> InPrecision<P> for Nothing {
    type Output = ();

    fn call<B, R>(self, _: Option<LossScale>)
    where
        B: AutodiffBackend<Device = P::Device>,
        R: Recipe<B>,
    {
    }
}

/// The shapes of a model, and whether a lower loss of it means a better model.
struct Describe<'a, P: Kernels>(&'a P::Device);

impl<P: Kernels> Visitor for Describe<'_, P> {
    type Output = (Shapes, bool);

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Self::Output {
        let net = M::TrainNet::<Autodiff<P>>::init(&model, self.0);
        (Shapes::of(&layers(&net)), M::LOSS_RANKS)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{Mutex, PoisonError},
    };

    use burn::backend::Flex;
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    /// The seed and the loss scale belong to the process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Makes an experiment, and reads its summary.
    fn experiment(out: &Path, options: &str) -> Value {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let command = "compare --model mlp:batch_size=32 --validation-items 64 --out";
        let args = command
            .split(' ')
            .chain(out.to_str())
            .chain(options.split(' '));
        super::run::<Flex>(&Args::parse_from(args), &Machine::flex()).unwrap();
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
    }

    /// The number in a row of a run's CSV.
    fn number(out: &Path, run: &Value, row: usize, column: usize) -> f64 {
        let text = fs::read_to_string(out.join(run["csv"].as_str().unwrap())).unwrap();
        let row = text.lines().nth(1 + row).unwrap();
        row.split(',').nth(column).unwrap().parse().unwrap()
    }

    #[test]
    fn all_precisions_learn_from_the_same_weights_and_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let options = "--epochs 2 --steps-per-epoch 60 --seeds 2 --learning-rate 2e-3";
        let summary = experiment(out, options);

        let runs = summary["runs"].as_array().unwrap();
        let names: Vec<_> = runs
            .iter()
            .map(|run| run["csv"].as_str().unwrap())
            .collect();
        assert_eq!(
            names.join(" "),
            "f32-seed42.csv f32-seed43.csv amp-bf16-seed42.csv amp-f16-seed42.csv"
        );
        for run in runs {
            assert_eq!(
                (&run["outcome"], &run["steps"]),
                (&json!("finished"), &json!(120))
            );
            assert_eq!(
                (&run["non_finite"], &run["skipped_steps"]),
                (&json!([]), &json!(0))
            );
            assert!(run["seconds_per_epoch"].as_f64() > Some(0.0));
            assert!(run["peak_memory_bytes"].as_u64() > Some(0));
            assert!(run["validation_accuracy"].as_f64() > Some(0.5));
            assert_eq!(
                run["validation_loss"].as_f64(),
                Some(number(out, run, 120, 3))
            );
            assert!(number(out, run, 120, 3) < 0.8 * number(out, run, 0, 3));
            let scale = if run["precision"] == "amp-f16" {
                65536.0
            } else {
                1.0
            };
            assert_eq!(number(out, run, 1, 5), scale);
        }
        let untrained: Vec<f64> = runs.iter().map(|run| number(out, run, 0, 3)).collect();
        let far = untrained
            .iter()
            .map(|loss| (loss - untrained[0]).abs() > 2e-3);
        assert_eq!(
            far.collect::<Vec<_>>(),
            [false, true, false, false],
            "{untrained:?}"
        );
        assert_ne!(untrained[0], untrained[2]);

        let text = fs::read_to_string(out.join("summary.md")).unwrap();
        assert_eq!(text.matches("as good").count(), 2, "{text}");
        assert!(
            text.contains("**f32 learned.**") && text.contains("emulates"),
            "{text}"
        );
        let picture = fs::read_to_string(out.join("curves.svg")).unwrap();
        assert!(picture.contains("amp-bf16, seed 42"));
    }

    #[test]
    fn runs_that_become_non_finite_are_reported_and_cost_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let lost = "--epochs 1 --steps-per-epoch 30 --seeds 1 --learning-rate 1e30";
        // The second time the loss scale starts from 65536 again.
        for summary in [experiment(out, lost), experiment(out, lost)] {
            // The first update takes the weights to 1e30.
            for run in [&summary["runs"][0], &summary["runs"][1]] {
                assert_eq!(
                    (&run["outcome"], &run["steps"]),
                    (&json!("non-finite"), &json!(2))
                );
                let seen = [&run["non_finite"][0], &run["non_finite"][1]];
                let parameters = "6 parameters, the first of them layers.0.weight";
                assert_eq!(
                    seen.map(|it| &it["place"]),
                    [&json!("the loss"), &json!(parameters)]
                );
                assert_eq!(seen.map(|it| &it["first_step"]), [&json!(2); 2]);
                assert!(run["validation_loss"].is_null());
                assert!(!number(out, run, 2, 2).is_finite());
            }
            // 2^16 is halved 16 times, and then it cannot fall any more.
            let f16 = &summary["runs"][2];
            assert!(
                f16["outcome"]
                    .as_str()
                    .unwrap()
                    .contains("overflow at the minimum 1")
            );
            assert_eq!(
                (&f16["steps"], &f16["skipped_steps"]),
                (&json!(17), &json!(16))
            );
            assert_eq!(f16["non_finite"][0]["loss_scale"], 65536.0);
            let place = f16["non_finite"][1]["place"].as_str().unwrap();
            assert!(
                place.contains("nearest to the loss layers.2.bias"),
                "{place}"
            );

            let text = fs::read_to_string(out.join("summary.md")).unwrap();
            assert!(text.contains("**f32 went wrong itself"), "{text}");
            assert_eq!(text.matches("cannot train this model").count(), 2, "{text}");
        }
    }
}
