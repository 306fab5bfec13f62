//! The zoo's GPT in unit scale: parameters, activations and gradients are near 1 at the start ("Unit Scaling", arXiv:2303.11257).
//!
//! Parameters are standard normal, and each op divides by what it would make its operand larger, in a normal net: a product by
//! `(inputs · outputs)^¼`, the geometric mean of what its result and its gradient need (table A.2 there).

use std::f64::consts::E;

use burn::{
    module::{Module, Param},
    nn::{Initializer, LayerNorm, LayerNormConfig, loss::CrossEntropyLossConfig},
    prelude::*,
    tensor::activation::{gelu, softmax},
};
use zoo::{Net, Sequences, models::gpt::GptConfig};

const NORMAL: Initializer = Initializer::Normal {
    mean: 0.0,
    std: 1.0,
};
/// The standard deviation of the GELU of a standard normal number.
const GELU: f64 = 0.588;
/// The factor of both summands of a residual sum.
const HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// A product with a matrix `[inputs, outputs]`.
#[derive(Module, Debug)]
pub struct UnitLinear<B: Backend> {
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: Backend> UnitLinear<B> {
    fn new([inputs, outputs]: [usize; 2], device: &B::Device) -> Self {
        Self {
            weight: NORMAL.init([inputs, outputs], device),
        }
    }

    /// What the product is divided by.
    pub fn divisor(&self) -> f64 {
        let [inputs, outputs] = self.weight.dims();
        ((inputs * outputs) as f64).powf(0.25)
    }

    /// `[batch, position, feature]` in and out.
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, length, inputs] = x.dims();
        let rows = x.reshape([batch * length, inputs]);
        let y = rows.matmul(self.weight.val()) / self.divisor();
        y.reshape([batch as i32, length as i32, -1])
    }
}

/// Attention and feed-forward, each over its normed input and added to it.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    norms: [LayerNorm<B>; 2],
    /// Query, key, value and output.
    attention: [UnitLinear<B>; 4],
    inner: UnitLinear<B>,
    outer: UnitLinear<B>,
    heads: usize,
}

impl<B: Backend> Block<B> {
    fn new(model: &GptConfig, device: &B::Device) -> Self {
        let GptConfig {
            width, inner_width, ..
        } = *model;
        let norm = || LayerNormConfig::new(width).init(device);
        let linear = |sizes| UnitLinear::new(sizes, device);
        Self {
            norms: [norm(), norm()],
            attention: std::array::from_fn(|_| linear([width, width])),
            inner: linear([width, inner_width]),
            outer: linear([inner_width, width]),
            heads: model.heads,
        }
    }

    fn attend(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let ([batch, length, width], device) = (x.dims(), x.device());
        let [q, k, v, output] = &self.attention;
        let [q, k, v] = [q, k, v].map(|project| {
            let heads = [batch, length, self.heads, width / self.heads];
            project.forward(x.clone()).reshape(heads).swap_dims(1, 2)
        });
        let scores = q.matmul(k.transpose()) / ((width / self.heads) as f64).sqrt();
        let hidden = Tensor::<B, 2, Bool>::tril_mask([length, length], 0, &device).unsqueeze();
        let y = softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3).matmul(v);
        // A mean of n normal values whose logarithmic weights are normal, too, has the variance e / n.
        let seen = Tensor::<B, 1, Int>::arange(1..length as i64 + 1, &device).float();
        let growth = (seen / E).clamp_min(1.0).sqrt().reshape([1, 1, length, 1]);
        let y = (y * growth).swap_dims(1, 2);
        output.forward(y.reshape([batch, length, width]))
    }

    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let [norm1, norm2] = &self.norms;
        let x = (x.clone() + self.attend(norm1.forward(x))) * HALF;
        let y = self.inner.forward(norm2.forward(x.clone()));
        (x + self.outer.forward(gelu(y) / GELU)) * HALF
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct UnitGpt<B: Backend> {
    token: Param<Tensor<B, 2>>,
    position: Param<Tensor<B, 2>>,
    blocks: Vec<Block<B>>,
    norm: LayerNorm<B>,
    head: UnitLinear<B>,
}

impl<B: Backend> UnitGpt<B> {
    /// All products with weights.
    #[cfg(test)]
    fn linears(&self) -> impl Iterator<Item = &UnitLinear<B>> {
        let of_blocks = self.blocks.iter().flat_map(|block| {
            let linears = block.attention.iter();
            linears.chain([&block.inner, &block.outer])
        });
        of_blocks.chain([&self.head])
    }

    fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [batch, length] = tokens.dims();
        let tokens = self.token.val().select(0, tokens.flatten(0, 1));
        let tokens = tokens.reshape([batch as i32, length as i32, -1]);
        let positions = self.position.val().slice_dim(0, 0..length).unsqueeze();
        let x = (tokens + positions) * HALF;
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.head.forward(self.norm.forward(x))
    }
}

impl<B: Backend> Net<B> for UnitGpt<B> {
    type Model = GptConfig;

    fn init(model: &GptConfig, device: &B::Device) -> Self {
        Self {
            token: NORMAL.init([model.vocab_size, model.width], device),
            position: NORMAL.init([model.positions, model.width], device),
            blocks: (0..model.layers)
                .map(|_| Block::new(model, device))
                .collect(),
            norm: LayerNormConfig::new(model.width).init(device),
            head: UnitLinear::new([model.width, model.vocab_size], device),
        }
    }

    fn loss(&self, batch: &Sequences<B>) -> Tensor<B, 1> {
        let Sequences { tokens, target } = batch.clone();
        let logits = self.forward(tokens);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        loss.forward(logits.flatten(0, 1), target.flatten(0, 1))
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, Flex};
    use zoo::{Draw, ZooModel};

    use super::*;
    use crate::design::{Design, Step};

    /// The root of the mean square.
    fn size<const D: usize>(x: Tensor<Flex, D>) -> f64 {
        x.square().mean().into_scalar().elem::<f64>().sqrt()
    }

    #[test]
    fn logits_and_the_operands_of_all_products_are_near_one() {
        type B = Autodiff<Flex>;
        let (model, device) = (GptConfig::tiny(), Default::default());
        B::seed(&device, 0);
        let net = UnitGpt::<B>::init(&model, &device);
        let items = 16;
        let batch = model.batch::<B>(Draw::train(items, 0), &device);
        let logits = size(net.forward(batch.tokens.clone()).inner());
        assert!((0.5..2.0).contains(&logits), "{logits}");
        let tokens = items * model.seq_len;
        let step = Step {
            parts: 1 << 20,
            tokens,
            classes: model.vocab_size,
        };
        let grads = (net.loss(&batch) * UnitGpt::<B>::factor(&step)).backward();
        for (at, linear) in net.linears().enumerate() {
            // A sum over tokens of the products of an input and a gradient, whose signs are random.
            let gradient = size(linear.weight.grad(&grads).unwrap());
            let operands = gradient * linear.divisor() / (tokens as f64).sqrt();
            assert!((0.1..10.0).contains(&operands), "{at}: {operands}");
        }
    }
}
