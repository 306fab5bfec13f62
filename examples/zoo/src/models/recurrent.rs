//! A recurrent layer over a sequence of features, classified by its last state.

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

/// The kinds of layers.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    Lstm,
    /// An LSTM in either direction; the classes follow from the last states of both.
    BiLstm,
    Gru,
    /// A single tanh.
    Rnn,
}

#[derive(Clone, Debug)]
pub struct RecurrentConfig {
    pub cell: Cell,
    pub features: usize,
    pub width: usize,
    pub seq_len: usize,
    pub classes: usize,
}

impl RecurrentConfig {
    fn full_of(cell: Cell) -> Self {
        Self {
            cell,
            features: 128,
            width: 512,
            seq_len: 128,
            classes: 10,
        }
    }

    fn tiny_of(cell: Cell) -> Self {
        Self {
            cell,
            features: 8,
            width: 16,
            seq_len: 12,
            classes: 10,
        }
    }

    /// 1,319,946 parameters.
    pub fn full() -> Self {
        Self::full_of(Cell::Lstm)
    }

    pub fn tiny() -> Self {
        Self::tiny_of(Cell::Lstm)
    }

    /// 2,639,882 parameters.
    pub fn full_bidirectional() -> Self {
        Self::full_of(Cell::BiLstm)
    }

    pub fn tiny_bidirectional() -> Self {
        Self::tiny_of(Cell::BiLstm)
    }

    /// 991,242 parameters.
    pub fn full_gru() -> Self {
        Self::full_of(Cell::Gru)
    }

    pub fn tiny_gru() -> Self {
        Self::tiny_of(Cell::Gru)
    }

    /// 333,834 parameters.
    pub fn full_rnn() -> Self {
        Self::full_of(Cell::Rnn)
    }

    pub fn tiny_rnn() -> Self {
        Self::tiny_of(Cell::Rnn)
    }
}

#[derive(Module, Debug)]
pub struct Recurrent<B: Backend> {
    layer: Layer<B>,
    head: Linear<B>,
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a net has one layer")]
enum Layer<B: Backend> {
    Lstm(nn::Lstm<B>),
    BiLstm(nn::BiLstm<B>),
    Gru(nn::Gru<B>),
    Rnn(nn::Rnn<B>),
}

impl<B: Backend> Layer<B> {
    /// From `[batch, position, feature]` to the last states `[batch, feature]`.
    fn last(&self, x: Tensor<B, 3>) -> Tensor<B, 2> {
        match self {
            Self::Lstm(layer) => layer.forward(x, None).1.hidden,
            Self::BiLstm(layer) => layer
                .forward(x, None)
                .1
                .hidden
                .swap_dims(0, 1)
                .flatten(1, 2),
            Self::Gru(layer) => {
                let states = layer.forward(x, None);
                let last = states.dims()[1] - 1;
                states.narrow(1, last, 1).squeeze_dim(1)
            }
            Self::Rnn(layer) => layer.forward(x, None).1.hidden,
        }
    }
}

impl<B: Backend> Recurrent<B> {
    /// From `[batch, position, feature]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 2> {
        self.head.forward(self.layer.last(x))
    }
}

impl ZooModel for RecurrentConfig {
    type Batch<B: Backend> = Labelled<B, 3>;
    type Net<B: Backend> = Recurrent<B>;
    type TrainNet<B: AutodiffBackend> = Recurrent<B>;

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

impl<B: Backend> Net<B> for Recurrent<B> {
    type Model = RecurrentConfig;

    fn init(model: &RecurrentConfig, device: &B::Device) -> Self {
        // PyTorch's initialization; Burn's default is Xavier's.
        let bound = 1.0 / (model.width as f64).sqrt();
        let initializer = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        let (features, width) = (model.features, model.width);
        let mut states = width;
        let layer = match model.cell {
            Cell::Lstm => {
                let config = nn::LstmConfig::new(features, width, true);
                Layer::Lstm(config.with_initializer(initializer).init(device))
            }
            Cell::BiLstm => {
                states *= 2;
                let config = nn::BiLstmConfig::new(features, width, true);
                Layer::BiLstm(config.with_initializer(initializer).init(device))
            }
            Cell::Gru => {
                let config = nn::GruConfig::new(features, width, true);
                Layer::Gru(config.with_initializer(initializer).init(device))
            }
            Cell::Rnn => {
                let config = nn::RnnConfig::new(features, width, true);
                Layer::Rnn(config.with_initializer(initializer).init(device))
            }
        };
        Self {
            layer,
            head: LinearConfig::new(states, model.classes).init(device),
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
