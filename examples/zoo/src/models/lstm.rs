//! One LSTM layer over a sequence of features, classified by its last state.

use burn::{
    module::{Initializer, Module},
    nn::{self, Linear, LinearConfig},
    prelude::*,
    tensor::backend::AutodiffBackend,
};

use crate::{
    Draw, Example, Labelled, Net, ZooModel, accuracy, loss::cross_entropy, weights::WeightsError,
};

/// The amplitude of a class's pattern, in standard deviations of the noise: visible only by summing over the sequence.
const SIGNAL: f32 = 0.25;

#[derive(Clone, Debug)]
pub struct LstmConfig {
    pub features: usize,
    pub width: usize,
    pub seq_len: usize,
    pub classes: usize,
}

impl LstmConfig {
    /// 1,319,946 parameters.
    pub fn full() -> Self {
        Self {
            features: 128,
            width: 512,
            seq_len: 128,
            classes: 10,
        }
    }

    pub fn tiny() -> Self {
        Self {
            features: 8,
            width: 16,
            seq_len: 12,
            classes: 10,
        }
    }
}

#[derive(Module, Debug)]
pub struct Lstm<B: Backend> {
    lstm: nn::Lstm<B>,
    head: Linear<B>,
}

impl<B: Backend> Lstm<B> {
    /// From `[batch, position, feature]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 2> {
        let (_, last) = self.lstm.forward(x, None);
        self.head.forward(last.hidden)
    }
}

impl ZooModel for LstmConfig {
    type Batch<B: Backend> = Labelled<B, 3>;
    type Net<B: Backend> = Lstm<B>;
    type TrainNet<B: AutodiffBackend> = Lstm<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![self.seq_len, self.features]
    }

    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Labelled<B, 3> {
        let item = [1, self.seq_len, self.features];
        Labelled::draw(draw, item, item, self.classes, SIGNAL, device)
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "features" => Some(&mut self.features),
            "width" => Some(&mut self.width),
            "seq_len" => Some(&mut self.seq_len),
            "classes" => Some(&mut self.classes),
            _ => None,
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Labelled<B, 3>, WeightsError> {
        Labelled::read(example, device)
    }
}

impl<B: Backend> Net<B> for Lstm<B> {
    type Model = LstmConfig;

    fn init(model: &LstmConfig, device: &B::Device) -> Self {
        // PyTorch's initialization; Burn's default is Xavier's.
        let bound = 1.0 / (model.width as f64).sqrt();
        let initializer = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        Self {
            lstm: nn::LstmConfig::new(model.features, model.width, true)
                .with_initializer(initializer)
                .init(device),
            head: LinearConfig::new(model.width, model.classes).init(device),
        }
    }

    fn loss(&self, batch: &Labelled<B, 3>) -> Tensor<B, 1> {
        cross_entropy(self.forward(batch.x.clone()), batch.target.clone())
    }

    fn accuracy(&self, batch: &Labelled<B, 3>) -> Option<Tensor<B, 1>> {
        let logits = self.forward(batch.x.clone());
        Some(accuracy::of_classes(logits, batch.target.clone()))
    }
}
