//! Multi-head self-attention and the feed-forward net that follows it in a transformer.

use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    prelude::*,
    tensor::activation::{gelu, softmax},
};

/// softmax(q kᵀ / √d) v of `[batch, head, position, d]`, where `hidden`, `[position, position]`, marks the pairs of a
/// query (row) and a key (column) that must not see each other.
fn attention<B: Backend>(
    q: Tensor<B, 4>,
    k: Tensor<B, 4>,
    v: Tensor<B, 4>,
    hidden: Option<Tensor<B, 2, Bool>>,
) -> Tensor<B, 4> {
    let d = q.dims()[3] as f64;
    let scores = q.matmul(k.transpose()) / d.sqrt();
    let scores = match hidden {
        Some(hidden) => scores.mask_fill(hidden.unsqueeze(), f32::NEG_INFINITY),
        None => scores,
    };
    softmax(scores, 3).matmul(v)
}

/// `[length, length]`, true where a key (column) lies after its query (row).
pub fn future<B: Backend>(length: usize, device: &B::Device) -> Tensor<B, 2, Bool> {
    Tensor::tril_mask([length, length], 0, device)
}

/// Four linear layers with bias; heads lie side by side in the width.
#[derive(Module, Debug)]
pub struct SelfAttention<B: Backend> {
    query: Linear<B>,
    key: Linear<B>,
    value: Linear<B>,
    output: Linear<B>,
    heads: usize,
}

impl<B: Backend> SelfAttention<B> {
    pub fn new(width: usize, heads: usize, device: &B::Device) -> Self {
        let linear = || LinearConfig::new(width, width).init(device);
        Self {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            heads,
        }
    }

    /// `[batch, position, feature]` in and out.
    pub fn forward(&self, x: Tensor<B, 3>, hidden: Option<Tensor<B, 2, Bool>>) -> Tensor<B, 3> {
        let [batch, length, width] = x.dims();
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|project| {
            project
                .forward(x.clone())
                .reshape([batch, length, self.heads, width / self.heads])
                .swap_dims(1, 2)
        });
        let y = attention(q, k, v, hidden).swap_dims(1, 2);
        self.output.forward(y.reshape([batch, length, width]))
    }
}

/// Linear, GELU in its erf form, linear.
#[derive(Module, Debug)]
pub struct FeedForward<B: Backend> {
    inner: Linear<B>,
    outer: Linear<B>,
}

impl<B: Backend> FeedForward<B> {
    pub fn new(width: usize, inner_width: usize, device: &B::Device) -> Self {
        Self {
            inner: LinearConfig::new(width, inner_width).init(device),
            outer: LinearConfig::new(inner_width, width).init(device),
        }
    }

    /// `[batch, position, feature]` in and out.
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.outer.forward(gelu(self.inner.forward(x)))
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn the_future_is_above_the_diagonal() {
        let hidden = future::<Flex>(3, &Default::default()).into_data();
        let expected = [false, true, true, false, false, true, false, false, false];
        assert_eq!(hidden.iter::<bool>().collect::<Vec<_>>(), expected);
    }

    /// Values 10 and 20 under scores 0 and ln 3 (d is 1): weights 1/4 and 3/4.
    #[test]
    fn weighs_values_by_the_softmax_of_the_scores() {
        let device = Default::default();
        let column = |values: [f32; 2]| {
            Tensor::<Flex, 1>::from_floats(values, &device).reshape([1, 1, 2, 1])
        };
        let [q, k, v] = [
            column([1.0, 1.0]),
            column([0.0, 3f32.ln()]),
            column([10.0, 20.0]),
        ];
        let run = |hidden| {
            let y = attention(q.clone(), k.clone(), v.clone(), hidden);
            y.into_data().to_vec::<f32>().unwrap()
        };
        let near = |x: f32, y: f32| (x - y).abs() < 1e-5;
        assert!(run(None).into_iter().all(|y| near(y, 17.5)));
        let causal = run(Some(future::<Flex>(2, &device)));
        assert!(near(causal[0], 10.0) && near(causal[1], 17.5), "{causal:?}");
    }
}
