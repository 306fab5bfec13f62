//! One run after the other, and the files that are written.

use std::fs;

use anyhow::{Context, Result};
use burn::backend::Autodiff;
use burn_amp::{AmpBackend, config::Config};
use lab::{machine::Machine, panics::caught, precision::Precision};
use zoo::{Draw, Net, Visitor, ZooModel};

use crate::{cli::Args, plot, run::Run, summary::Summary, training::Train, verdict::judge};

/// Runs the experiment that the command line asks for, and writes and prints its results.
///
/// All runs are on the calling thread: CubeCL keeps a memory pool per stream, and a thread is a stream.
///
/// # Errors
///
/// If the configuration is wrong, or the output cannot be written. A run that goes wrong is a result.
pub fn run<P: AmpBackend>(args: &Args, machine: &Machine) -> Result<()> {
    let (device, out) = (P::Device::default(), args.out());
    let policy = Config::load()?;
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };

    let (parameters, loss_ranks) = args.model.visit(args.size(), Describe::<P>(args, &device));
    let mut runs = Vec::new();
    for precision in args.precisions() {
        let is_f32 = precision == Precision::F32;
        for seed in args.seed..args.seed + if is_f32 { args.seeds } else { 1 } {
            P::memory_cleanup(&device);
            let mut run = Run {
                precision,
                seed,
                ..Run::default()
            };
            let (device, meter, record) = (&device, &machine.meter, &mut run);
            let train = Train::<P> {
                args,
                device,
                meter,
                run: record,
            };
            let result = caught(|| precision.with::<P, _>(device, &policy, train)?);
            let error = result.map_or_else(Some, |result| result.err().map(|it| it.to_string()));
            let steps = run.steps.len();
            run.failure = error.map(|error| format!("stopped after step {steps}: {error}"));
            write(&(run.name() + ".csv"), run.csv(args.steps_per_epoch.get()))?;
            runs.push(run);
        }
    }

    let summary = Summary {
        args,
        machine,
        parameters,
        runs: &runs,
        verdict: judge(&runs, machine.emulates_half, loss_ranks),
    };
    let json = serde_json::to_string_pretty(&summary.json())?;
    write("summary.json", json)?;
    write("summary.md", format!("{summary:#}"))?;
    let picture = out.join("curves.svg");
    plot::draw(&picture, &summary.title(), &runs)?;
    let (picture, out) = (picture.display(), out.display());
    println!("\n{summary}\ncurves: {picture}; all files: {out}");
    Ok(())
}

/// The number of a model's parameters, and whether a lower loss of it means a better model.
///
/// Makes a step, too: what a process makes only once, such as threads, does not count as memory of the first run.
struct Describe<'a, P: AmpBackend>(&'a Args, &'a P::Device);

impl<P: AmpBackend> Visitor for Describe<'_, P> {
    type Output = (usize, bool);

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Self::Output {
        let Self(args, device) = self;
        let net = M::TrainNet::<Autodiff<P>>::init(&model, device);
        let parameters = zoo::parameters(&net);
        let step = || {
            let batch = model.batch(Draw::train(args.batch_size(), 0), device);
            M::step(net, &batch, &mut zoo::adamw().init(), args.learning_rate);
        };
        caught(step).ok(); // a failure will be that of the runs, too
        (parameters, M::LOSS_RANKS)
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Mutex};

    use burn::backend::Flex;
    use clap::Parser;
    use serde_json::Value;

    use super::*;

    /// The seed and the loss scale belong to the process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Makes an experiment; returns its table of runs as JSON, and the summary as text.
    fn experiment(out: &Path, options: &str) -> (Value, String) {
        let _alone = ONE_AT_A_TIME.lock();
        let command = "compare --model mlp:batch_size=32 --validation-items 64 --out";
        let args = command.split(' ').chain(out.to_str());
        let args = Args::parse_from(args.chain(options.split(' ')));
        super::run::<Flex>(&args, &Machine::flex()).unwrap();
        let read = |name| fs::read_to_string(out.join(name)).unwrap();
        let mut json: Value = serde_json::from_str(&read("summary.json")).unwrap();
        (json["runs"].take(), read("summary.md"))
    }

    #[test]
    fn all_precisions_learn_from_the_same_weights_and_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let options = "--epochs 2 --steps-per-epoch 60 --seeds 2 --learning-rate 2e-3";
        let (runs, text) = experiment(out, options);
        let mut untrained = Vec::new();
        for run in runs.as_array().unwrap() {
            assert!(run["failure"].is_null(), "{run}");
            assert!(run["non_finite"].is_null(), "{run}");
            for number in ["seconds_per_step", "peak_memory_bytes"] {
                assert!(run[number].as_f64() > Some(0.0), "{run}");
            }
            assert!(run["validation_accuracy"].as_f64() > Some(0.5), "{run}");
            let csv = fs::read_to_string(out.join(run["csv"].as_str().unwrap())).unwrap();
            let rows: Vec<Vec<&str>> = csv.lines().map(|row| row.split(',').collect()).collect();
            let loss = |step: usize| rows[1 + step][3].parse::<f64>().unwrap();
            let found = run["validation_loss"].as_f64().unwrap();
            assert!((found - loss(120)).abs() < 1e-12, "{run}"); // parsing JSON rounds
            assert!(loss(120) < 0.8 * loss(0), "{csv}");
            // In F16 the search for the scale is over after a tenth of the steps.
            assert_eq!(rows[30][5] == "65536", run["precision"] == "amp-f16");
            untrained.push(loss(0));
        }
        let is_near = |loss: &f64| (loss - untrained[0]).abs() < 2e-3;
        let near = untrained.iter().map(is_near);
        assert!(near.eq([true, false, true, true]), "{untrained:?}");
        assert_ne!(untrained[0], untrained[2]);

        assert!(text.contains("f32 learned"), "{text}");
        assert_eq!(text.matches(": as good").count(), 2, "{text}");
        assert_eq!(text.matches("CPU emulates").count(), 2, "{text}");
        let picture = fs::read_to_string(out.join("curves.svg")).unwrap();
        for name in ["f32-seed43", "amp-bf16-seed42", "amp-f16-seed42"] {
            assert!(picture.contains(name) && text.contains(name), "{name}");
        }
    }

    #[test]
    fn runs_that_become_non_finite_are_reported_and_cost_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let lost = "--epochs 1 --steps-per-epoch 60 --seeds 1 --learning-rate 1e30";
        // The second time the loss scale starts afresh.
        for _ in 0..2 {
            let (runs, text) = experiment(directory.path(), lost);
            // The first update takes the weights to 1e30. In F16, 2^5 is halved 29 times to the smallest scale, and the
            // 20th overflow there ends the run.
            let skipped = [0, 1, 2].map(|run| runs[run]["skipped_steps"].clone());
            assert_eq!(skipped, [0, 0, 48]);
            for (words, count) in [
                ("**f32 went wrong itself", 1),
                ("nor can f32: it is not the precision.**", 2),
                ("in step 2 at a loss scale of 1: the loss; ", 2),
                ("2: non-finite parameter layers.0.weight and 5 others", 2),
                ("2 at a loss scale of 32: the loss; 2 of 6 gradients", 1),
                ("nearest to the loss layers.2.bias", 1),
                ("amp-f16-seed42: stopped after step 49: ", 1),
                ("20 of them at the smallest scale 2^-24", 1),
            ] {
                assert_eq!(text.matches(words).count(), count, "{words}: {text}");
            }
        }
    }
}
