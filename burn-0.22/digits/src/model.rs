//! A small convolutional net for 8×8 images.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    tensor::{Device, Tensor, activation::relu},
};

use crate::data::{CLASSES, SIDE};

const CHANNELS: usize = 32;
const HIDDEN: usize = 64;

#[derive(Module, Debug)]
pub struct Model {
    conv: Conv2d,
    norm: BatchNorm,
    pool: MaxPool2d,
    dropout: Dropout,
    hidden: Linear,
    output: Linear,
}

impl Model {
    pub fn new(device: &Device) -> Self {
        let pooled = CHANNELS * (SIDE / 2) * (SIDE / 2);
        Self {
            conv: Conv2dConfig::new([1, CHANNELS], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            dropout: DropoutConfig::new(0.3).init(),
            hidden: LinearConfig::new(pooled, HIDDEN).init(device),
            output: LinearConfig::new(HIDDEN, CLASSES).init(device),
        }
    }

    /// From images `[batch, 1, height, width]` to logits `[batch, class]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let features = relu(self.norm.forward(self.conv.forward(images)));
        let features = self.pool.forward(features).flatten::<2>(1, 3);
        let hidden = relu(self.hidden.forward(self.dropout.forward(features)));
        self.output.forward(self.dropout.forward(hidden))
    }
}
