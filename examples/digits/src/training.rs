//! Trains with Burn's learner, and tests the trained model.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use burn::{
    data::{
        dataloader::{DataLoader, DataLoaderBuilder},
        dataset::Dataset,
    },
    lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig,
    optim::AdamWConfig,
    prelude::*,
    record::DefaultRecorder,
    tensor::backend::AutodiffBackend,
    train::{
        Learner, SupervisedTraining,
        metric::{AccuracyMetric, LossMetric},
    },
};

use crate::{
    data::{self, DigitBatch, DigitBatcher, Split},
    each_step::EachStep,
    loss_log::LossLog,
    model::{Model, ModelConfig},
    progress::Progress,
};

#[derive(Config, Debug)]
pub struct TrainingConfig {
    pub epochs: usize,
    pub seed: u64,
    #[config(default = 32)]
    batch_size: usize,
    #[config(default = 2e-3)]
    learning_rate: f64,
}

/// The results of a training run.
pub struct Trained {
    /// Share of the test digits that the trained model recognizes.
    pub accuracy: f64,
    /// The training loss of every step.
    pub losses: Vec<f64>,
    pub steps_per_epoch: usize,
    /// Training alone, without the test at the end.
    pub time: Duration,
}

/// Trains a model and tests it. `on_step` is called at the start of every training step.
pub fn run<B: AutodiffBackend>(
    config: &TrainingConfig,
    device: &B::Device,
    name: &str,
    directory: &Path,
    on_step: impl Fn() + Clone + Send + Sync + 'static,
) -> Trained {
    B::seed(device, config.seed);

    let Split { train, test } = data::split();
    let steps_per_epoch = train.len().div_ceil(config.batch_size);
    let train = DataLoaderBuilder::<B, _, _>::new(DigitBatcher)
        .batch_size(config.batch_size)
        .shuffle(config.seed)
        .set_device(device.clone())
        .build(train);
    let test = DataLoaderBuilder::<B::InnerBackend, _, _>::new(DigitBatcher)
        .batch_size(config.batch_size)
        .set_device(device.clone())
        .build(test);

    let schedule = CosineAnnealingLrSchedulerConfig::new(
        config.learning_rate,
        config.epochs * steps_per_epoch,
    )
    .init()
    .expect("the learning rate is in (0, 1] and there is a step");
    let learner = Learner::new(
        ModelConfig::new().init::<B>(device),
        AdamWConfig::new().init(),
        EachStep::new(schedule, on_step),
    );

    // No metric chooses a model or stops the training, so the test digits may be shown on the way.
    let log = LossLog::default();
    let start = Instant::now();
    let trained = SupervisedTraining::new(directory, train, test.clone())
        .metric_train_numeric(LossMetric::new())
        .metric_valid_numeric(LossMetric::new())
        .metric_valid_numeric(AccuracyMetric::new())
        .with_metric_logger(log.clone())
        .with_application_logger(None)
        .with_file_checkpointer(DefaultRecorder::new())
        .renderer(Progress::new(name))
        .num_epochs(config.epochs)
        .launch(learner);
    let time = start.elapsed();

    Trained {
        accuracy: accuracy(&trained.model, &*test),
        losses: log.train_losses(config.epochs),
        steps_per_epoch,
        time,
    }
}

fn accuracy<B: Backend>(model: &Model<B>, digits: &dyn DataLoader<B, DigitBatch<B>>) -> f64 {
    let right: i64 = digits
        .iter()
        .map(|DigitBatch { images, labels }| {
            let answers = model.forward(images).argmax(1).squeeze_dim::<1>(1);
            let right = answers.equal(labels).int().sum();
            right.into_scalar().elem::<i64>()
        })
        .sum();
    right as f64 / digits.num_items() as f64
}
