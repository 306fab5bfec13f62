//! A burn-train `Learner` in F16, with what burn-amp adds to it: metrics, gradient clipping, a scheduler that does not
//! advance on a skipped step, and checkpoints that contain the loss scale.
//!
//! ```text
//! cargo run --release -p learner                  # the dashboard
//! cargo run --release -p learner -- --resume 40 --epochs 60   # continues from the checkpoint of epoch 40
//! ```
//!
//! The first scale is far too large on purpose, so that the first steps are skipped.

mod model;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use burn::{
    backend::Flex,
    lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig,
    optim::AdamConfig,
    record::DefaultRecorder,
    tensor::backend::Backend,
    train::{
        Learner, SupervisedTraining,
        metric::{AccuracyMetric, LossMetric},
    },
};
use burn_amp::{
    Amp, Autodiff,
    config::{Compute, Config, DynamicLossScale},
    metric::AmpMetric,
    optim::{AmpOptimizer, Clipping, GradientNorm, HoldOnSkip},
};
use clap::Parser;

type B = Autodiff<Amp<Flex>>;

/// Trains a small net in F16 with Burn's dashboard.
#[derive(Parser)]
struct Args {
    /// The epochs to train in all, those before a `--resume` included; an epoch is 150 steps.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,

    /// Continues from the checkpoint of this epoch; the last two epochs of a run have one.
    #[arg(long, value_name = "EPOCH", value_parser = clap::value_parser!(u16).range(1..))]
    resume: Option<u16>,

    /// The folder for checkpoints and logs.
    #[arg(long, value_name = "DIR", default_value = "target/learner")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The epochs in a folder that training can continue from.
fn checkpoints(folder: &Path) -> Vec<u16> {
    let files = fs::read_dir(folder.join("checkpoint"))
        .into_iter()
        .flatten();
    let names = files.flatten().map(|file| file.file_name());
    let mut epochs: Vec<u16> = names
        .filter_map(|name| {
            let name = name.to_str()?.split('.').next()?;
            name.strip_prefix("model-")?.parse().ok()
        })
        .collect();
    epochs.sort_unstable();
    epochs
}

fn check_resume(args: &Args) -> Result<(), String> {
    let Some(epoch) = args.resume else {
        return Ok(());
    };
    let found = checkpoints(&args.out);
    if !found.contains(&epoch) {
        let found: Vec<_> = found.iter().map(u16::to_string).collect();
        return Err(format!(
            "{} has no checkpoint of epoch {epoch}; it has: {}",
            args.out.display(),
            if found.is_empty() {
                "none".into()
            } else {
                found.join(", ")
            }
        ));
    }
    if epoch >= args.epochs {
        return Err(format!(
            "epoch {epoch} is not before the last one, {}; continue with `--epochs {}` or more",
            args.epochs,
            epoch + 1
        ));
    }
    Ok(())
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    check_resume(args)?;
    let device = Default::default();
    B::seed(&device, 42);
    let config = Config {
        compute: Compute::F16,
        loss_scale: DynamicLossScale {
            init: 2f32.powi(40),
            search: false,
            max: 2f32.powi(40),
            growth_interval: 100,
            ..DynamicLossScale::default()
        }
        .into(),
        ..Config::default()
    };
    burn_amp::configure::<B>(&device, config)?;
    let scale = burn_amp::loss_scale::<B>(&device);

    let norm = GradientNorm::default();
    let optimizer = AmpOptimizer::new(AdamConfig::new())
        .with_clipping(Clipping::GlobalNorm(1.0))
        .with_gradient_norm(&norm)
        .init();
    let steps = usize::from(args.epochs) * model::STEPS_PER_EPOCH;
    let schedule = CosineAnnealingLrSchedulerConfig::new(1e-2, steps).init()?;
    let learner = Learner::new(
        model::Model::<B>::new(&device),
        optimizer,
        HoldOnSkip::new(schedule, scale),
    );

    let mut training = SupervisedTraining::new(&args.out, model::train(), model::valid())
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .metric_train_numeric(AmpMetric::loss_scale(scale))
        .metric_train_numeric(AmpMetric::skipped_steps(scale))
        .metric_train_numeric(AmpMetric::gradient_norm(norm))
        .with_file_checkpointer(DefaultRecorder::new())
        .num_epochs(args.epochs.into());
    if let Some(epoch) = args.resume {
        training = training.checkpoint(epoch.into());
    }
    training.launch(learner);

    println!(
        "{} steps, {} skipped; the loss scale is {}",
        scale.steps(),
        scale.skipped_steps(),
        scale.scale()
    );
    if let Some(skip) = scale.last_skip() {
        println!("the last skip: {skip}");
    }
    println!("logs: {}", args.out.display());
    Ok(())
}
