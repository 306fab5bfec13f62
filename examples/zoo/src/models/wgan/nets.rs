//! The two nets of the GAN.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig},
    },
    prelude::*,
    tensor::activation::{leaky_relu, relu, tanh},
};

use super::{CHANNELS, WganConfig};

/// The slope of the leaky ReLU for negative values, from DCGAN.
const SLOPE: f64 = 0.2;

const KERNEL: [usize; 2] = [4, 4];

#[derive(Module, Debug)]
pub(super) struct Generator<B: Backend> {
    layers: Vec<ConvTranspose2d<B>>,
    norms: Vec<BatchNorm<B>>,
    head: ConvTranspose2d<B>,
}

impl<B: Backend> Generator<B> {
    pub(super) fn new(model: &WganConfig, device: &B::Device) -> Self {
        let mut widths = model.widths();
        widths.reverse();
        let doubling = |channels| {
            ConvTranspose2dConfig::new(channels, KERNEL)
                .with_stride([2, 2])
                .with_padding([1, 1])
        };
        let first = ConvTranspose2dConfig::new([model.latent, widths[0]], KERNEL);
        let rest = widths.windows(2).map(|pair| doubling([pair[0], pair[1]]));
        Self {
            layers: [first]
                .into_iter()
                .chain(rest)
                .map(|layer| layer.with_bias(false).init(device))
                .collect(),
            norms: widths
                .iter()
                .map(|width| BatchNormConfig::new(*width).init(device))
                .collect(),
            head: doubling([model.width, CHANNELS]).init(device),
        }
    }

    pub(super) fn forward(&self, noise: Tensor<B, 2>) -> Tensor<B, 4> {
        let x = noise.unsqueeze_dims(&[2, 3]);
        let x = self
            .layers
            .iter()
            .zip(&self.norms)
            .fold(x, |x, (layer, norm)| relu(norm.forward(layer.forward(x))));
        tanh(self.head.forward(x))
    }
}

#[derive(Module, Debug)]
pub(super) struct Critic<B: Backend> {
    layers: Vec<Conv2d<B>>,
    head: Conv2d<B>,
}

impl<B: Backend> Critic<B> {
    pub(super) fn new(model: &WganConfig, device: &B::Device) -> Self {
        let widths: Vec<usize> = [CHANNELS].into_iter().chain(model.widths()).collect();
        let halving = |pair: &[usize]| {
            Conv2dConfig::new([pair[0], pair[1]], KERNEL)
                .with_stride([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(device)
        };
        Self {
            layers: widths.windows(2).map(halving).collect(),
            head: Conv2dConfig::new([widths[widths.len() - 1], 1], KERNEL).init(device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 1> {
        let x = self
            .layers
            .iter()
            .fold(x, |x, layer| leaky_relu(layer.forward(x), SLOPE));
        self.head.forward(x).flatten(0, 3)
    }
}
