//! GPT-2-small decoder (Radford et al. 2019) with GELU in its erf form and a head without bias, whose weights are not
//! tied to the embeddings.

use burn::{
    module::Module,
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    prelude::*,
    tensor::backend::AutodiffBackend,
};

use super::attention::{FeedForward, SelfAttention, future};
use crate::{
    Draw, Example, Net, Sequences, ZooModel, accuracy, draw::indices, loss::token_cross_entropy,
    text, weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct GptConfig {
    pub vocab_size: usize,
    /// The longest sequence.
    pub positions: usize,
    pub seq_len: usize,
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub inner_width: usize,
}

impl GptConfig {
    /// 163,037,184 parameters.
    pub fn full() -> Self {
        Self {
            vocab_size: 50_257,
            positions: 1024,
            seq_len: 1024,
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
            seq_len: 16,
            width: 32,
            layers: 2,
            heads: 4,
            inner_width: 128,
        }
    }
}

/// Attention and feed-forward, each over its normed input and added to it.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    norm1: LayerNorm<B>,
    attention: SelfAttention<B>,
    norm2: LayerNorm<B>,
    feed_forward: FeedForward<B>,
}

impl<B: Backend> Block<B> {
    fn new(model: &GptConfig, device: &B::Device) -> Self {
        Self {
            norm1: LayerNormConfig::new(model.width).init(device),
            attention: SelfAttention::new(model.width, model.heads, device),
            norm2: LayerNormConfig::new(model.width).init(device),
            feed_forward: FeedForward::new(model.width, model.inner_width, device),
        }
    }

    fn forward(&self, x: Tensor<B, 3>, hidden: Tensor<B, 2, Bool>) -> Tensor<B, 3> {
        let y = self.norm1.forward(x.clone());
        let x = x + self.attention.forward(y, Some(hidden));
        let y = self.norm2.forward(x.clone());
        x + self.feed_forward.forward(y)
    }
}

#[derive(Module, Debug)]
pub struct Gpt<B: Backend> {
    token: Embedding<B>,
    position: Embedding<B>,
    blocks: Vec<Block<B>>,
    norm: LayerNorm<B>,
    head: Linear<B>,
}

impl<B: Backend> Gpt<B> {
    /// Logits `[batch, position, token]` of indices `[batch, position]`.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let (length, device) = (tokens.dims()[1], tokens.device());
        let positions = Tensor::arange(0..length as i64, &device).unsqueeze();
        let x = self.token.forward(tokens) + self.position.forward(positions);
        let hidden = future::<B>(length, &device);
        let x = self
            .blocks
            .iter()
            .fold(x, |x, block| block.forward(x, hidden.clone()));
        self.head.forward(self.norm.forward(x))
    }
}

impl ZooModel for GptConfig {
    type Batch<B: Backend> = Sequences<B>;
    type Net<B: Backend> = Gpt<B>;
    type TrainNet<B: AutodiffBackend> = Gpt<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![self.seq_len]
    }

    /// Passages of the play; the target of a position is the token after it.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Sequences<B> {
        let mut rng = draw.rng();
        let (mut tokens, mut target) = (Vec::new(), Vec::new());
        for _ in 0..draw.items {
            let passage = text::passage(draw.part, self.seq_len + 1, self.vocab_size, &mut rng);
            tokens.extend_from_slice(&passage[..self.seq_len]);
            target.extend_from_slice(&passage[1..]);
        }
        let shape = [draw.items, self.seq_len];
        Sequences {
            tokens: indices(tokens, shape, device),
            target: indices(target, shape, device),
        }
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "vocab_size" => Some(&mut self.vocab_size),
            "positions" => Some(&mut self.positions),
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
    ) -> Result<Sequences<B>, WeightsError> {
        Sequences::read(example, device)
    }
}

impl<B: Backend> Net<B> for Gpt<B> {
    type Model = GptConfig;

    fn init(model: &GptConfig, device: &B::Device) -> Self {
        let embedding = |rows| EmbeddingConfig::new(rows, model.width).init(device);
        Self {
            token: embedding(model.vocab_size),
            position: embedding(model.positions),
            blocks: (0..model.layers)
                .map(|_| Block::new(model, device))
                .collect(),
            norm: LayerNormConfig::new(model.width).init(device),
            head: LinearConfig::new(model.width, model.vocab_size)
                .with_bias(false)
                .init(device),
        }
    }

    fn loss(&self, batch: &Sequences<B>) -> Tensor<B, 1> {
        let Sequences { tokens, target } = batch.clone();
        token_cross_entropy(self.forward(tokens), target)
    }

    fn accuracy(&self, batch: &Sequences<B>) -> Option<Tensor<B, 1>> {
        let Sequences { tokens, target } = batch.clone();
        Some(accuracy::of_tokens(self.forward(tokens), target))
    }
}

#[cfg(test)]
mod tests {
    use burn::{backend::Flex, tensor::Tensor};

    use super::*;

    #[test]
    fn a_position_does_not_see_the_tokens_after_it() {
        let device = Default::default();
        let gpt = Gpt::<Flex>::init(&GptConfig::tiny(), &device);
        let logits = |last: i32| {
            let tokens = Tensor::from_ints([[3, 1, 4, last]], &device);
            let logits = gpt.forward(tokens);
            [0..3, 3..4].map(|positions| logits.clone().slice([0..1, positions]).into_data())
        };
        let ([before, at], [before_other, at_other]) = (logits(1), logits(5));
        assert_eq!(before, before_other);
        assert_ne!(at, at_other);
    }
}
