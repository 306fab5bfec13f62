//! `cargo xtask recipes`: trains models of the zoo in each recipe of eight bits, simulated, or with what a graph keeps in eight bits, and
//! compares the final losses with BF16's.
//!
//! Each training is a run of `compare` with `BURN_AMP_SIMULATE` or `BURN_AMP_SAVED`, so nothing else differs: the same weights, the same batches. A loss is
//! compared with that of BF16 with the same seed. F32 is compared, too: how far it is from BF16 tells what a difference means.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Context, Result, ensure};
use burn_amp_core::{
    Saved,
    formats::{Recipe, Simulate},
    replay::Loss,
};
use serde::Deserialize;

use crate::workspace::{cargo, executable};

/// The options of `cargo xtask recipes`.
#[derive(clap::Args)]
pub struct Options {
    /// The models of the zoo, with their numbers as `compare` takes them
    #[arg(long, num_args = 1.., default_values = ["mlp", "gpt", "resnet18"])]
    model: Vec<String>,
    /// The number of seeds
    #[arg(long, default_value_t = 5)]
    seeds: u32,
    /// The steps of each training
    #[arg(long, default_value_t = 300)]
    steps: u32,
    /// Keeps operands in eight bits, in place of the recipes
    #[arg(long)]
    saved: bool,
    /// The trainings that run side by side
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// A training: the model, what it simulates, what its graph keeps, and the seed. F32 simulates nothing.
struct Training<'a> {
    model: &'a str,
    precision: &'static str,
    simulate: Simulate,
    saved: Saved,
    seed: u32,
}

/// What `compare` writes of its runs.
#[derive(Deserialize)]
struct Summary {
    runs: Vec<Trained>,
}

/// A run of `compare`.
#[derive(Deserialize)]
struct Trained {
    validation_loss: Option<f64>,
}

/// What `burn-amp replay --recipes --json` prints.
#[derive(Deserialize)]
struct Replayed {
    products: Vec<Product>,
    step: Option<StepLosses>,
}

#[derive(Deserialize)]
struct StepLosses {
    recipes: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct Product {
    recipes: Vec<Loss>,
}

/// Trains, and prints a table.
pub fn run(options: &Options) -> Result<()> {
    let mut build = cargo(&[
        "build",
        "--release",
        "--locked",
        "-p",
        "lab",
        "--bin",
        "compare",
    ]);
    let compare = executable(&mut build, "compare")?;
    let mut build = cargo(&["build", "--release", "--locked", "-p", "burn-amp-cli"]);
    let replay = executable(&mut build, "burn-amp")?;
    let folder = tempfile::tempdir()?;
    println!(
        "| model | precision | products borne | step, dB | loss | over BF16's | seeds |\n|---|---|---|---|---|---|---|"
    );
    for model in &options.model {
        let mut trainings = Vec::new();
        for seed in 0..options.seeds {
            let training = |precision, simulate, saved| Training {
                model,
                precision,
                simulate,
                saved,
                seed,
            };
            trainings.push(training("f32", Simulate::Off, Saved::Whole));
            if options.saved {
                let forms = Saved::ALL.into_iter();
                trainings.extend(forms.map(|saved| training("amp-bf16", Simulate::Off, saved)));
            } else {
                let simulated = Simulate::ALL.into_iter();
                let training = |simulate| training("amp-bf16", simulate, Saved::Whole);
                trainings.extend(simulated.map(training));
            }
        }
        let losses = all(options, &trainings, &compare, folder.path())?;
        let borne = match options.saved {
            true => Vec::new(),
            false => borne(&replay, &step_of(folder.path()))?,
        };
        let each = trainings.len() / options.seeds as usize;
        let of = |at: usize| losses.iter().skip(at).step_by(each).copied();
        for (at, training) in trainings.iter().enumerate().take(each) {
            let name = match at {
                0 => "f32",
                1 => "bf16",
                _ if options.saved => "bf16, saved in 8 bits",
                _ => training.simulate.name(),
            };
            let ratios: Vec<f64> = of(at)
                .zip(of(1))
                .map(|(loss, bf16)| loss / bf16 - 1.0)
                .collect();
            let mean = mean(&ratios);
            let of_seeds = match at {
                1 => String::new(),
                _ => format!("{:+.2} ± {:.2} %", 100.0 * mean, 100.0 * error(&ratios)),
            };
            let borne = training
                .simulate
                .recipe()
                .map_or(" | ".to_owned(), |recipe| {
                    let place = Recipe::ALL.iter().position(|it| it.name == recipe.name);
                    let Borne {
                        count,
                        all,
                        decibels,
                    } = borne[place.expect("a recipe")];
                    let decibels =
                        decibels.map_or(String::new(), |decibels| format!("{decibels:.1}"));
                    format!("{count} of {all} | {decibels}")
                });
            let loss = self::mean(&of(at).collect::<Vec<_>>());
            println!(
                "| {model} | {name} | {borne} | {loss:.4} | {of_seeds} | {} |",
                options.seeds
            );
        }
    }
    Ok(())
}

/// The step that the BF16 run of the first seed writes, its last one.
fn step_of(folder: &Path) -> std::path::PathBuf {
    folder.join("step.safetensors")
}

/// Trains all, some side by side; returns the final validation losses in the order of the trainings.
fn all(
    options: &Options,
    trainings: &[Training],
    compare: &Path,
    folder: &Path,
) -> Result<Vec<f64>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, f64)>> {
        let mut losses = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(training) = trainings.get(at) else {
                return Ok(losses);
            };
            losses.push((at, train(options, training, compare, folder, at)?));
        }
    };
    let mut losses = thread::scope(|scope| {
        let jobs = (0..options.jobs.max(1)).map(|_| scope.spawn(work));
        let jobs: Vec<_> = jobs.collect();
        let done = jobs
            .into_iter()
            .map(|job| job.join().expect("no thread panics"));
        done.collect::<Result<Vec<_>>>()
    })?
    .concat();
    losses.sort_by_key(|(at, _)| *at);
    Ok(losses.into_iter().map(|(_, loss)| loss).collect())
}

/// Trains once; returns the final validation loss.
fn train(
    options: &Options,
    training: &Training,
    compare: &Path,
    folder: &Path,
    at: usize,
) -> Result<f64> {
    let Training {
        model,
        precision,
        simulate,
        saved,
        seed,
    } = training;
    let out = folder.join(at.to_string());
    let mut command = Command::new(compare);
    command
        .args([
            "--model",
            model,
            "--precision",
            precision,
            "--seeds",
            "1",
            "--epochs",
            "1",
        ])
        .args([
            "--steps-per-epoch",
            &options.steps.to_string(),
            "--seed",
            &seed.to_string(),
        ])
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null());
    if *precision != "f32" {
        command
            .env("BURN_AMP_SIMULATE", simulate.name())
            .env("BURN_AMP_SAVED", saved.name());
    }
    let is_plain = *simulate == Simulate::Off && *saved == Saved::Whole;
    if *precision != "f32" && is_plain && *seed == 0 {
        command
            .env("BURN_AMP_REPLAY_OUTPUT", step_of(folder))
            .env("BURN_AMP_REPLAY_STEP", options.steps.to_string());
    }
    let what = || format!("{model}, {precision}, simulate {simulate}, saved {saved}, seed {seed}");
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", what());
    let summary = fs::read_to_string(out.join("summary.json")).with_context(what)?;
    let summary: Summary = serde_json::from_str(&summary).with_context(what)?;
    let loss = summary.runs.first().and_then(|run| run.validation_loss);
    loss.with_context(|| format!("{}: no validation loss", what()))
}

/// What a step loses in a recipe.
#[derive(Clone, Copy)]
struct Borne {
    /// How many products bear it.
    count: usize,
    all: usize,
    /// The signal to noise of the gradients of the whole step.
    decibels: Option<f64>,
}

/// What a step loses in each recipe.
fn borne(replay: &Path, step: &Path) -> Result<Vec<Borne>> {
    let mut command = Command::new(replay);
    command
        .arg("replay")
        .arg(step)
        .args(["--recipes", "--json"]);
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let replayed: Replayed = serde_json::from_slice(&output.stdout)?;
    let of = |(at, recipe)| {
        let losses = replayed.products.iter().map(|product| &product.recipes[at]);
        Borne {
            count: losses.filter(|loss: &&Loss| loss.is_borne(recipe)).count(),
            all: replayed.products.len(),
            decibels: replayed.step.as_ref().and_then(|step| step.recipes[at]),
        }
    };
    Ok(Recipe::ALL.iter().enumerate().map(of).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean.
fn error(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    let count = values.len() as f64;
    (squares / (count - 1.0).max(1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_is_that_of_the_definition() {
        assert_eq!(mean(&[1.0, 2.0, 3.0, 6.0]), 3.0);
        // The variance is 14 / 3, and that of the mean a quarter of it.
        assert!((error(&[1.0, 2.0, 3.0, 6.0]) - (14.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(error(&[5.0]), 0.0);
    }
}
