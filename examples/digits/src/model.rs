//! A small convolutional net for 8×8 images.

use burn::{
    nn::{
        BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d,
        Relu,
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    prelude::*,
    tensor::backend::AutodiffBackend,
    train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep},
};

use crate::data::{CLASSES, DigitBatch, SIDE};

#[derive(Config, Debug)]
pub struct ModelConfig {
    #[config(default = 16)]
    channels: usize,
    #[config(default = 64)]
    hidden: usize,
    #[config(default = 0.3)]
    dropout: f64,
}

#[derive(Module, Debug)]
pub struct Model<B: Backend> {
    conv1: ConvBlock<B>,
    conv2: ConvBlock<B>,
    pool: MaxPool2d,
    dropout: Dropout,
    hidden: Linear<B>,
    activation: Relu,
    output: Linear<B>,
}

#[derive(Module, Debug)]
struct ConvBlock<B: Backend> {
    conv: Conv2d<B>,
    norm: BatchNorm<B>,
    activation: Relu,
}

impl ModelConfig {
    pub fn init<B: Backend>(&self, device: &B::Device) -> Model<B> {
        let [first, second] = [self.channels, 2 * self.channels];
        let pooled = second * (SIDE / 2) * (SIDE / 2);
        Model {
            conv1: ConvBlock::new([1, first], device),
            conv2: ConvBlock::new([first, second], device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            dropout: DropoutConfig::new(self.dropout).init(),
            hidden: LinearConfig::new(pooled, self.hidden).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(self.hidden, CLASSES).init(device),
        }
    }
}

impl<B: Backend> ConvBlock<B> {
    fn new(channels: [usize; 2], device: &B::Device) -> Self {
        Self {
            conv: Conv2dConfig::new(channels, [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
            activation: Relu::new(),
        }
    }

    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 4> {
        let images = self.conv.forward(images);
        self.activation.forward(self.norm.forward(images))
    }
}

impl<B: Backend> Model<B> {
    /// From images `[batch, 1, height, width]` to logits `[batch, class]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let features = self.conv2.forward(self.conv1.forward(images));
        let features = self.pool.forward(features).flatten::<2>(1, 3);
        let hidden = self.hidden.forward(self.dropout.forward(features));
        let hidden = self.dropout.forward(self.activation.forward(hidden));
        self.output.forward(hidden)
    }

    fn classify(&self, batch: DigitBatch<B>) -> ClassificationOutput<B> {
        let logits = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

impl<B: AutodiffBackend> TrainStep for Model<B> {
    type Input = DigitBatch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Self::Input) -> TrainOutput<Self::Output> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Model<B> {
    type Input = DigitBatch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Self::Input) -> Self::Output {
        self.classify(batch)
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn gives_one_logit_per_class() {
        let device = Default::default();
        let model = ModelConfig::new().init::<Flex>(&device);
        let logits = model.forward(Tensor::zeros([3, 1, SIDE, SIDE], &device));
        assert_eq!(logits.dims(), [3, CLASSES]);
    }
}
