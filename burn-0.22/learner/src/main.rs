//! Trains the net of `burn-0.22/digits` with Burn's `Learner`, in the precision that `amp.toml` or the variables
//! `BURN_AMP_*` choose: `BURN_AMP_COMPUTE=f16 cargo run --release`.
//!
//! The model, the checkpoints and the loop are plain Burn. Two metrics show the loss scale and the skipped steps.

#[path = "../../digits/src/data.rs"]
mod data;
#[path = "../../digits/src/model.rs"]
mod model;

use anyhow::Result;
use burn::{
    data::{
        dataloader::{DataLoaderBuilder, batcher::Batcher},
        dataset::InMemDataset,
    },
    module::Module,
    nn::loss::CrossEntropyLossConfig,
    optim::AdamWConfig,
    tensor::Device,
    train::{
        ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
        metric::{AccuracyMetric, LossMetric},
    },
};
use burn_amp::metric::AmpMetric;

use data::{Batch, Digit};
use model::Model;

const EPOCHS: usize = 8;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 3e-3;
const SEED: u64 = 42;
const OUT: &str = "target/learner";

/// The net, as the `Learner` trains it.
#[derive(Module, Debug)]
struct Classifier {
    net: Model,
}

impl Classifier {
    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.net.forward(batch.images);
        let loss_of = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = loss_of.forward(logits.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, logits, batch.classes)
    }
}

impl TrainStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Puts digits on a device.
#[derive(Clone)]
struct Digits;

impl Batcher<Digit, Batch> for Digits {
    fn batch(&self, digits: Vec<Digit>, device: &Device) -> Batch {
        data::batch(digits.iter(), device)
    }
}

fn main() -> Result<()> {
    let device = Device::default().autodiff();
    device.seed(SEED);
    let scale = burn_amp::loss_scale(&device)?;
    let [train, test] = data::read()?.map(|digits| {
        DataLoaderBuilder::new(Digits)
            .batch_size(BATCH)
            .shuffle(SEED)
            .build(InMemDataset::new(digits))
    });
    let model = Classifier {
        net: Model::new(&device),
    };
    let mut result = SupervisedTraining::new(OUT, train, test)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .metric_train_numeric(AmpMetric::loss_scale(scale))
        .metric_train_numeric(AmpMetric::skipped_steps(scale))
        .with_default_checkpointers()
        .num_epochs(EPOCHS)
        .summary()
        .launch(Learner::new(
            model,
            AdamWConfig::new().init(),
            LEARNING_RATE,
        ));
    result.renderer.manual_close();
    println!(
        "computed in {}; loss scale {}, {} of {} steps skipped; checkpoints and logs: {OUT}",
        burn_amp::effective_config(&device)?.compute.name(),
        scale.scale(),
        scale.skipped_steps(),
        scale.steps()
    );
    Ok(())
}
