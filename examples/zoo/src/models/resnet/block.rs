//! The building blocks of a ResNet.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    prelude::*,
    tensor::activation::relu,
};

/// A convolution that keeps the size at stride 1, without bias.
pub(super) fn conv<B: Backend>(
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    device: &B::Device,
) -> Conv2d<B> {
    let side = kernel / 2;
    Conv2dConfig::new(channels, [kernel, kernel])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(side, side, side, side))
        .with_bias(false)
        .init(device)
}

pub(super) fn norm<B: Backend>(channels: usize, device: &B::Device) -> BatchNorm<B> {
    BatchNormConfig::new(channels).init(device)
}

/// The 1×1 projection of a shortcut; nothing where the shape stays and the shortcut is the identity.
type Shortcut<B> = Option<(Conv2d<B>, BatchNorm<B>)>;

fn shortcut<B: Backend>(channels: [usize; 2], stride: usize, device: &B::Device) -> Shortcut<B> {
    let [d_in, d_out] = channels;
    (stride != 1 || d_in != d_out).then(|| (conv(channels, 1, stride, device), norm(d_out, device)))
}

fn cut_short<B: Backend>(shortcut: &Shortcut<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
    match shortcut {
        Some((conv, norm)) => norm.forward(conv.forward(x)),
        None => x,
    }
}

#[derive(Module, Debug)]
pub(super) struct BasicBlock<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm<B>,
    conv2: Conv2d<B>,
    bn2: BatchNorm<B>,
    downsample: Shortcut<B>,
}

impl<B: Backend> BasicBlock<B> {
    pub(super) fn new(d_in: usize, width: usize, stride: usize, device: &B::Device) -> Self {
        Self {
            conv1: conv([d_in, width], 3, stride, device),
            bn1: norm(width, device),
            conv2: conv([width, width], 3, 1, device),
            bn2: norm(width, device),
            downsample: shortcut([d_in, width], stride, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let y = self.bn2.forward(self.conv2.forward(y));
        relu(y + cut_short(&self.downsample, x))
    }
}

/// The channels of a bottleneck's output, as a multiple of its width.
pub(super) const EXPANSION: usize = 4;

#[derive(Module, Debug)]
pub(super) struct Bottleneck<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm<B>,
    conv2: Conv2d<B>,
    bn2: BatchNorm<B>,
    conv3: Conv2d<B>,
    bn3: BatchNorm<B>,
    downsample: Shortcut<B>,
}

impl<B: Backend> Bottleneck<B> {
    pub(super) fn new(d_in: usize, width: usize, stride: usize, device: &B::Device) -> Self {
        let d_out = width * EXPANSION;
        Self {
            conv1: conv([d_in, width], 1, 1, device),
            bn1: norm(width, device),
            conv2: conv([width, width], 3, stride, device),
            bn2: norm(width, device),
            conv3: conv([width, d_out], 1, 1, device),
            bn3: norm(d_out, device),
            downsample: shortcut([d_in, d_out], stride, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let y = relu(self.bn2.forward(self.conv2.forward(y)));
        let y = self.bn3.forward(self.conv3.forward(y));
        relu(y + cut_short(&self.downsample, x))
    }
}

#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a net has one kind of block, a few dozen of them"
)]
pub(super) enum Block<B: Backend> {
    Basic(BasicBlock<B>),
    Bottleneck(Bottleneck<B>),
}

impl<B: Backend> Block<B> {
    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        match self {
            Self::Basic(block) => block.forward(x),
            Self::Bottleneck(block) => block.forward(x),
        }
    }
}
