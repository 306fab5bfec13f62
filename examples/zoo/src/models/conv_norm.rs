//! A convolution and batch norm, of which nets with depthwise convolutions are made.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    prelude::*,
};

/// The sizes of a [`ConvNorm`].
pub struct ConvNormConfig {
    pub channels: [usize; 2],
    pub kernel: usize,
    pub stride: usize,
    pub groups: usize,
    /// Of the norm.
    pub epsilon: f64,
}

/// A convolution without bias that keeps the size at stride 1, and batch norm.
#[derive(Module, Debug)]
pub struct ConvNorm<B: Backend> {
    conv: Conv2d<B>,
    bn: BatchNorm<B>,
}

impl ConvNormConfig {
    pub fn init<B: Backend>(self, device: &B::Device) -> ConvNorm<B> {
        let side = self.kernel / 2;
        ConvNorm {
            conv: Conv2dConfig::new(self.channels, [self.kernel, self.kernel])
                .with_stride([self.stride, self.stride])
                .with_padding(PaddingConfig2d::Explicit(side, side, side, side))
                .with_groups(self.groups)
                .with_bias(false)
                .init(device),
            bn: BatchNormConfig::new(self.channels[1])
                .with_epsilon(self.epsilon)
                .init(device),
        }
    }
}

impl<B: Backend> ConvNorm<B> {
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        self.bn.forward(self.conv.forward(x))
    }
}
