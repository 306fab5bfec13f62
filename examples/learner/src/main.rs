//! A burn-train `Learner` in F16, with what burn-amp adds to it: metrics, gradient clipping, a scheduler that does not
//! advance on a skipped step, and checkpoints that contain the loss scale.
//!
//! ```text
//! cargo run --release -p learner                  # the dashboard
//! cargo run --release -p learner -- --resume 2    # continues from the checkpoint of epoch 2
//! ```
//!
//! The first scale is far too large on purpose, so that the first steps are skipped.

mod model;

use std::path::PathBuf;

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
    config::{Compute, Config, DynamicLossScale, SetupError},
    metric::AmpMetric,
    optim::{AmpOptimizer, Clipping, GradientNorm, HoldOnSkip},
};
use clap::Parser;

type B = Autodiff<Amp<Flex>>;

/// Trains a small net in F16 with Burn's dashboard.
#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 4)]
    epochs: usize,

    /// Continues from the checkpoint of this epoch.
    #[arg(long, value_name = "EPOCH")]
    resume: Option<usize>,

    /// The folder for checkpoints and logs.
    #[arg(long, value_name = "DIR", default_value = "target/learner")]
    out: PathBuf,
}

fn main() -> Result<(), SetupError> {
    let args = Args::parse();
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
    let steps = args.epochs * model::STEPS_PER_EPOCH;
    let schedule = CosineAnnealingLrSchedulerConfig::new(1e-2, steps)
        .init()
        .expect("the learning rate is in (0, 1] and there is a step");
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
        .num_epochs(args.epochs);
    if let Some(epoch) = args.resume {
        training = training.checkpoint(epoch);
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
