//! The building blocks of a YOLOX.

use burn::{
    module::Module,
    nn::{
        PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    prelude::*,
    tensor::activation::silu,
};

use crate::models::conv_norm::{ConvNorm, ConvNormConfig};

pub(super) fn conv<B: Backend>(
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    groups: usize,
    device: &B::Device,
) -> ConvNorm<B> {
    let config = ConvNormConfig {
        channels,
        kernel,
        stride,
        groups,
        epsilon: 1e-3,
    };
    config.init(device)
}

/// A convolution, its norm, SiLU.
pub(super) fn activated<B: Backend>(conv: &ConvNorm<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
    silu(conv.forward(x))
}

/// A 3×3 convolution over each channel by itself, then a 1×1 one.
#[derive(Module, Debug)]
pub(super) struct Separable<B: Backend> {
    depthwise: ConvNorm<B>,
    pointwise: ConvNorm<B>,
}

impl<B: Backend> Separable<B> {
    pub(super) fn new([d_in, d_out]: [usize; 2], stride: usize, device: &B::Device) -> Self {
        Self {
            depthwise: conv([d_in, d_in], 3, stride, d_in, device),
            pointwise: conv([d_in, d_out], 1, 1, 1, device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        activated(&self.pointwise, activated(&self.depthwise, x))
    }
}

#[derive(Module, Debug)]
struct Bottleneck<B: Backend> {
    conv1: ConvNorm<B>,
    conv2: Separable<B>,
    adds: bool,
}

impl<B: Backend> Bottleneck<B> {
    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = self.conv2.forward(activated(&self.conv1, x.clone()));
        if self.adds { x + y } else { y }
    }
}

/// Two ways, one of them through bottlenecks, that a convolution merges.
#[derive(Module, Debug)]
pub(super) struct TwoWays<B: Backend> {
    conv1: ConvNorm<B>,
    conv2: ConvNorm<B>,
    blocks: Vec<Bottleneck<B>>,
    conv3: ConvNorm<B>,
}

impl<B: Backend> TwoWays<B> {
    pub(super) fn new(
        [d_in, d_out]: [usize; 2],
        blocks: usize,
        adds: bool,
        device: &B::Device,
    ) -> Self {
        let inner = d_out / 2;
        let block = |_| Bottleneck {
            conv1: conv([inner, inner], 1, 1, 1, device),
            conv2: Separable::new([inner, inner], 1, device),
            adds,
        };
        Self {
            conv1: conv([d_in, inner], 1, 1, 1, device),
            conv2: conv([d_in, inner], 1, 1, 1, device),
            blocks: (0..blocks).map(block).collect(),
            conv3: conv([2 * inner, d_out], 1, 1, 1, device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let through = activated(&self.conv1, x.clone());
        let through = self
            .blocks
            .iter()
            .fold(through, |x, block| block.forward(x));
        let past = activated(&self.conv2, x);
        activated(&self.conv3, Tensor::cat(vec![through, past], 1))
    }
}

/// Max pools of three sizes beside their input.
#[derive(Module, Debug)]
pub(super) struct Pyramid<B: Backend> {
    conv1: ConvNorm<B>,
    pools: Vec<MaxPool2d>,
    conv2: ConvNorm<B>,
}

impl<B: Backend> Pyramid<B> {
    pub(super) fn new(width: usize, device: &B::Device) -> Self {
        let pool = |side: usize| {
            let edge = side / 2;
            MaxPool2dConfig::new([side, side])
                .with_strides([1, 1])
                .with_padding(PaddingConfig2d::Explicit(edge, edge, edge, edge))
                .init()
        };
        Self {
            conv1: conv([width, width / 2], 1, 1, 1, device),
            pools: [5, 9, 13].map(pool).into(),
            conv2: conv([2 * width, width], 1, 1, 1, device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let x = activated(&self.conv1, x);
        let pooled = self.pools.iter().map(|pool| pool.forward(x.clone()));
        let all = [x.clone()].into_iter().chain(pooled).collect();
        activated(&self.conv2, Tensor::cat(all, 1))
    }
}

/// Finds objects in one of the three maps.
#[derive(Module, Debug)]
pub(super) struct Head<B: Backend> {
    stem: ConvNorm<B>,
    class_convs: Vec<Separable<B>>,
    frame_convs: Vec<Separable<B>>,
    cls: Conv2d<B>,
    frame: Conv2d<B>,
    object: Conv2d<B>,
}

impl<B: Backend> Head<B> {
    pub(super) fn new(d_in: usize, width: usize, classes: usize, device: &B::Device) -> Self {
        let convs = || {
            let conv = |_| Separable::new([width, width], 1, device);
            (0..2).map(conv).collect()
        };
        let last = |d_out| Conv2dConfig::new([width, d_out], [1, 1]).init(device);
        Self {
            stem: conv([d_in, width], 1, 1, 1, device),
            class_convs: convs(),
            frame_convs: convs(),
            cls: last(classes),
            frame: last(4),
            object: last(1),
        }
    }

    /// `[batch, 5 + classes, place]`.
    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 3> {
        let x = activated(&self.stem, x);
        let through =
            |convs: &[Separable<B>]| convs.iter().fold(x.clone(), |x, conv| conv.forward(x));
        let [class, frame] = [through(&self.class_convs), through(&self.frame_convs)];
        let all = vec![
            self.frame.forward(frame.clone()),
            self.object.forward(frame),
            self.cls.forward(class),
        ];
        Tensor::cat(all, 1).flatten(2, 3)
    }
}
