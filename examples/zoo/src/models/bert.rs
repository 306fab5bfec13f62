//! BERT-base encoder (Devlin et al. 2018) with a linear head over the vocabulary, whose weights are not tied to the
//! embeddings.

use burn::{
    module::Module,
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    prelude::*,
    tensor::backend::AutodiffBackend,
};
use rand::RngExt;

use super::attention::{FeedForward, SelfAttention};
use crate::{
    Draw, Example, Net, Sequences, ZooModel, accuracy, draw::indices, loss::token_cross_entropy,
    text, weights::WeightsError,
};

/// The ε of the layer norms, as in the published model.
const EPSILON: f64 = 1e-12;

/// The share of tokens that are hidden, as in the published training.
const MASKED_PERCENT: u32 = 15;

#[derive(Clone, Debug)]
pub struct BertConfig {
    pub vocab_size: usize,
    /// The longest sequence.
    pub positions: usize,
    pub types: usize,
    pub seq_len: usize,
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub inner_width: usize,
}

impl BertConfig {
    /// 132,363,066 parameters.
    pub fn full() -> Self {
        Self {
            vocab_size: 30_522,
            positions: 512,
            types: 2,
            seq_len: 128,
            width: 768,
            layers: 12,
            heads: 12,
            inner_width: 3072,
        }
    }

    pub fn tiny() -> Self {
        Self {
            vocab_size: 64,
            positions: 32,
            types: 2,
            seq_len: 16,
            width: 32,
            layers: 2,
            heads: 4,
            inner_width: 128,
        }
    }
}

/// Attention and feed-forward, each added to its input and normed after.
#[derive(Module, Debug)]
struct Layer<B: Backend> {
    attention: SelfAttention<B>,
    norm1: LayerNorm<B>,
    feed_forward: FeedForward<B>,
    norm2: LayerNorm<B>,
}

impl<B: Backend> Layer<B> {
    fn new(model: &BertConfig, device: &B::Device) -> Self {
        Self {
            attention: SelfAttention::new(model.width, model.heads, device),
            norm1: norm(model, device),
            feed_forward: FeedForward::new(model.width, model.inner_width, device),
            norm2: norm(model, device),
        }
    }

    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let x = x.clone() + self.attention.forward(x, None);
        let x = self.norm1.forward(x);
        let x = x.clone() + self.feed_forward.forward(x);
        self.norm2.forward(x)
    }
}

fn norm<B: Backend>(model: &BertConfig, device: &B::Device) -> LayerNorm<B> {
    LayerNormConfig::new(model.width)
        .with_epsilon(EPSILON)
        .init(device)
}

#[derive(Module, Debug)]
pub struct Bert<B: Backend> {
    token: Embedding<B>,
    position: Embedding<B>,
    token_type: Embedding<B>,
    norm: LayerNorm<B>,
    layers: Vec<Layer<B>>,
    head: Linear<B>,
}

/// A passage of which some tokens are hidden.
#[derive(Clone, Debug)]
pub struct Passages<B: Backend> {
    pub sequences: Sequences<B>,
    /// `[batch, position]`: in which of its segments a token is.
    pub types: Tensor<B, 2, Int>,
}

impl<B: Backend> Bert<B> {
    /// Logits `[batch, position, token]` of indices `[batch, position]`.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>, types: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let length = tokens.dims()[1] as i64;
        let positions = Tensor::arange(0..length, &tokens.device()).unsqueeze();
        let x = self.token.forward(tokens)
            + self.position.forward(positions)
            + self.token_type.forward(types);
        let layers = self.layers.iter();
        self.head
            .forward(layers.fold(self.norm.forward(x), |x, layer| layer.forward(x)))
    }
}

impl ZooModel for BertConfig {
    type Batch<B: Backend> = Passages<B>;
    type Net<B: Backend> = Bert<B>;
    type TrainNet<B: AutodiffBackend> = Bert<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![self.seq_len]
    }

    /// Draws passages of the play. The target is the whole passage; in the input, the last token of the vocabulary
    /// replaces the tokens to predict.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Passages<B> {
        let mut rng = draw.rng();
        let shape = [draw.items, self.seq_len];
        let mask = self.vocab_size - 1;
        let target: Vec<i32> = (0..draw.items)
            .flat_map(|_| text::passage(draw.part, self.seq_len, mask, &mut rng))
            .collect();
        let tokens = target
            .iter()
            .map(|token| match rng.random_ratio(MASKED_PERCENT, 100) {
                true => mask as i32,
                false => *token,
            })
            .collect();
        let types = (0..draw.items * self.seq_len)
            .map(|index| (index % self.seq_len * self.types / self.seq_len) as i32)
            .collect();
        Passages {
            sequences: Sequences {
                tokens: indices(tokens, shape, device),
                target: indices(target, shape, device),
            },
            types: indices(types, shape, device),
        }
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "vocab_size" => Some(&mut self.vocab_size),
            "positions" => Some(&mut self.positions),
            "types" => Some(&mut self.types),
            "seq_len" => Some(&mut self.seq_len),
            "width" => Some(&mut self.width),
            "layers" => Some(&mut self.layers),
            "heads" => Some(&mut self.heads),
            "inner_width" => Some(&mut self.inner_width),
            _ => None,
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Passages<B>, WeightsError> {
        Ok(Passages {
            sequences: Sequences::read(example, device)?,
            types: example.ints("batch.types", device)?,
        })
    }
}

impl<B: Backend> Net<B> for Bert<B> {
    type Model = BertConfig;

    fn init(model: &BertConfig, device: &B::Device) -> Self {
        let embedding = |rows| EmbeddingConfig::new(rows, model.width).init(device);
        Self {
            token: embedding(model.vocab_size),
            position: embedding(model.positions),
            token_type: embedding(model.types),
            norm: norm(model, device),
            layers: (0..model.layers)
                .map(|_| Layer::new(model, device))
                .collect(),
            head: LinearConfig::new(model.width, model.vocab_size).init(device),
        }
    }

    /// Over all positions, hidden or not.
    fn loss(&self, batch: &Passages<B>) -> Tensor<B, 1> {
        let Sequences { tokens, target } = batch.sequences.clone();
        token_cross_entropy(self.forward(tokens, batch.types.clone()), target)
    }

    /// Over all positions, as the loss.
    fn accuracy(&self, batch: &Passages<B>) -> Option<Tensor<B, 1>> {
        let Sequences { tokens, target } = batch.sequences.clone();
        let logits = self.forward(tokens, batch.types.clone());
        Some(accuracy::of_tokens(logits, target))
    }
}
