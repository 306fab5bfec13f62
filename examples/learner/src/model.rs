//! A small net that classifies four noisy patterns: plain Burn, with nothing about precision in it.

use std::sync::Arc;

use burn::{
    data::{
        dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher},
        dataset::InMemDataset,
    },
    nn::{Linear, LinearConfig, Relu, loss::CrossEntropyLossConfig},
    prelude::*,
    tensor::{Distribution, backend::AutodiffBackend},
    train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep},
};

const CLASSES: usize = 4;
const FEATURES: usize = 32;
const BATCH: usize = 32;
pub const STEPS_PER_EPOCH: usize = 150;

/// A net of two linear layers.
#[derive(Module, Debug)]
pub struct Model<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

impl<B: Backend> Model<B> {
    pub fn new(device: &B::Device) -> Self {
        Self {
            hidden: LinearConfig::new(FEATURES, 64).init(device),
            output: LinearConfig::new(64, CLASSES).init(device),
        }
    }

    fn classify(&self, Patterns { x, classes }: Patterns<B>) -> ClassificationOutput<B> {
        let logits = self
            .output
            .forward(Relu::new().forward(self.hidden.forward(x)));
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), classes.clone());
        ClassificationOutput::new(loss, logits, classes)
    }
}

impl<B: AutodiffBackend> TrainStep for Model<B> {
    type Input = Patterns<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Patterns<B>) -> TrainOutput<ClassificationOutput<B>> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Model<B> {
    type Input = Patterns<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Patterns<B>) -> ClassificationOutput<B> {
        self.classify(batch)
    }
}

/// Patterns `[batch, features]` and their classes `[batch]`.
#[derive(Clone, Debug)]
pub struct Patterns<B: Backend> {
    x: Tensor<B, 2>,
    classes: Tensor<B, 1, Int>,
}

/// Makes a batch of class numbers.
#[derive(Clone)]
struct Noisy;

impl<B: Backend> Batcher<B, usize, Patterns<B>> for Noisy {
    /// A pattern is a wave whose frequency depends on the class, with noise of the same strength.
    fn batch(&self, classes: Vec<usize>, device: &B::Device) -> Patterns<B> {
        let classes: Vec<i32> = classes.into_iter().map(|class| class as i32).collect();
        let classes = Tensor::<B, 1, Int>::from_ints(classes.as_slice(), device);
        let frequency = (classes.clone().float() + 1.0).unsqueeze_dim::<2>(1);
        let position = Tensor::<B, 1, Int>::arange(0..FEATURES as i64, device);
        let position =
            position.float().unsqueeze::<2>() * (0.5 / FEATURES as f64 * std::f64::consts::TAU);
        let wave = (frequency * position).sin();
        let noise = wave.random_like(Distribution::Normal(0.0, 1.0));
        Patterns {
            x: wave + noise,
            classes,
        }
    }
}

pub fn train<B: Backend>() -> Arc<dyn DataLoader<B, Patterns<B>>> {
    loader(STEPS_PER_EPOCH)
}

pub fn valid<B: Backend>() -> Arc<dyn DataLoader<B, Patterns<B>>> {
    loader(20)
}

fn loader<B: Backend>(batches: usize) -> Arc<dyn DataLoader<B, Patterns<B>>> {
    let classes = (0..batches * BATCH).map(|item| item % CLASSES).collect();
    DataLoaderBuilder::new(Noisy)
        .batch_size(BATCH)
        .build(InMemDataset::new(classes))
}
