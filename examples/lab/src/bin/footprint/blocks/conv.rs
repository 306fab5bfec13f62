//! Convolutions with norms.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, GroupNorm, GroupNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    prelude::*,
    tensor::{
        activation::{relu, silu},
        backend::AutodiffBackend,
    },
};

use super::Block;

const CHANNELS: usize = 32;

/// A 3×3 convolution without bias that keeps the shape.
fn conv3x3<B: Backend>(device: &B::Device) -> Conv2d<B> {
    Conv2dConfig::new([CHANNELS, CHANNELS], [3, 3])
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
        .with_bias(false)
        .init(device)
}

/// The basic block of a ResNet.
pub struct BatchNormResidual;

#[derive(Module, Debug)]
pub struct Residual<B: Backend> {
    conv1: Conv2d<B>,
    norm1: BatchNorm<B>,
    conv2: Conv2d<B>,
    norm2: BatchNorm<B>,
}

impl Block<4> for BatchNormResidual {
    type Net<B: AutodiffBackend> = Residual<B>;

    const INPUT: [usize; 4] = [4, CHANNELS, 32, 32];

    fn init<B: AutodiffBackend>(device: &B::Device) -> Residual<B> {
        Residual {
            conv1: conv3x3(device),
            norm1: BatchNormConfig::new(CHANNELS).init(device),
            conv2: conv3x3(device),
            norm2: BatchNormConfig::new(CHANNELS).init(device),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Residual<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = relu(net.norm1.forward(net.conv1.forward(x.clone())));
        relu(net.norm2.forward(net.conv2.forward(y)) + x)
    }
}

/// Convolution, group norm and SiLU, as in diffusion models.
pub struct GroupNormSilu;

#[derive(Module, Debug)]
pub struct Grouped<B: Backend> {
    conv: Conv2d<B>,
    norm: GroupNorm<B>,
}

impl Block<4> for GroupNormSilu {
    type Net<B: AutodiffBackend> = Grouped<B>;

    const INPUT: [usize; 4] = [4, CHANNELS, 32, 32];

    fn init<B: AutodiffBackend>(device: &B::Device) -> Grouped<B> {
        Grouped {
            conv: conv3x3(device),
            norm: GroupNormConfig::new(8, CHANNELS).init(device),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Grouped<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
        silu(net.norm.forward(net.conv.forward(x)))
    }
}
