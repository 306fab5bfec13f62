//! MobileNetV2 (Sandler et al. 2018): depthwise convolutions between 1×1 ones.

use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig,
        pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig},
    },
    prelude::*,
    tensor::backend::AutodiffBackend,
};

use super::conv_norm::{ConvNorm, ConvNormConfig};
use crate::{
    Draw, Example, Labelled, Net, ZooModel, accuracy, loss::cross_entropy, weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct MobileNetConfig {
    /// What the channels of the published net are divided by.
    pub thinner: usize,
    /// The most blocks of a stage.
    pub depth: usize,
    pub classes: usize,
    /// Pixels on a side of an image.
    pub image: usize,
}

const CHANNELS: usize = 3;

/// Channels of the first convolution and of the last one.
const ENDS: [usize; 2] = [32, 1280];

/// The stages: expansion, channels, blocks, stride.
const STAGES: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

/// Pixels on a side of the patterns by which the classes differ.
const TILE: usize = 8;

/// The amplitude of a class's pattern, in standard deviations of the noise: visible only by averaging over the image.
const SIGNAL: f32 = 0.25;

impl MobileNetConfig {
    /// 3,504,872 parameters.
    pub fn full() -> Self {
        Self {
            thinner: 1,
            depth: usize::MAX,
            classes: 1000,
            image: 224,
        }
    }

    pub fn tiny() -> Self {
        Self {
            thinner: 4,
            depth: 1,
            classes: 10,
            image: 64,
        }
    }
}

fn conv<B: Backend>(
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
        epsilon: 1e-5,
    };
    config.init(device)
}

/// A ReLU that ends at 6.
fn relu6<B: Backend>(x: Tensor<B, 4>) -> Tensor<B, 4> {
    x.clamp(0.0, 6.0)
}

/// An inverted residual: to more channels, over each of them by itself, to fewer channels.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    expand: Option<ConvNorm<B>>,
    depthwise: ConvNorm<B>,
    project: ConvNorm<B>,
    adds: bool,
}

impl<B: Backend> Block<B> {
    fn new([d_in, d_out]: [usize; 2], expansion: usize, stride: usize, device: &B::Device) -> Self {
        let inner = d_in * expansion;
        Self {
            expand: (expansion > 1).then(|| conv([d_in, inner], 1, 1, 1, device)),
            depthwise: conv([inner, inner], 3, stride, inner, device),
            project: conv([inner, d_out], 1, 1, 1, device),
            adds: stride == 1 && d_in == d_out,
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = match &self.expand {
            Some(expand) => relu6(expand.forward(x.clone())),
            None => x.clone(),
        };
        let y = self.project.forward(relu6(self.depthwise.forward(y)));
        if self.adds { x + y } else { y }
    }
}

#[derive(Module, Debug)]
pub struct MobileNet<B: Backend> {
    first: ConvNorm<B>,
    blocks: Vec<Block<B>>,
    last: ConvNorm<B>,
    average: AdaptiveAvgPool2d,
    fc: Linear<B>,
}

impl<B: Backend> MobileNet<B> {
    /// From images `[batch, 3, height, width]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = relu6(self.first.forward(x));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        let x = relu6(self.last.forward(x));
        self.fc.forward(self.average.forward(x).flatten(1, 3))
    }
}

impl ZooModel for MobileNetConfig {
    type Batch<B: Backend> = Labelled<B, 4>;
    type Net<B: Backend> = MobileNet<B>;
    type TrainNet<B: AutodiffBackend> = MobileNet<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image, self.image]
    }

    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Labelled<B, 4> {
        let item = [1, CHANNELS, self.image, self.image];
        let tile = [1, CHANNELS, TILE, TILE];
        Labelled::draw(draw, item, tile, self.classes, SIGNAL, device)
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "classes" => Some(&mut self.classes),
            "image" => Some(&mut self.image),
            _ => None,
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Labelled<B, 4>, WeightsError> {
        Labelled::read(example, device)
    }
}

impl<B: Backend> Net<B> for MobileNet<B> {
    type Model = MobileNetConfig;

    fn init(model: &MobileNetConfig, device: &B::Device) -> Self {
        let [first, last] = ENDS.map(|channels| channels / model.thinner);
        let mut blocks = Vec::new();
        let mut d_in = first;
        for [expansion, channels, count, stride] in STAGES {
            let d_out = channels / model.thinner;
            for index in 0..count.min(model.depth) {
                let stride = if index == 0 { stride } else { 1 };
                blocks.push(Block::new([d_in, d_out], expansion, stride, device));
                d_in = d_out;
            }
        }
        Self {
            first: conv([CHANNELS, first], 3, 2, 1, device),
            blocks,
            last: conv([d_in, last], 1, 1, 1, device),
            average: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            fc: LinearConfig::new(last, model.classes).init(device),
        }
    }

    fn loss(&self, batch: &Labelled<B, 4>) -> Tensor<B, 1> {
        cross_entropy(self.forward(batch.x.clone()), batch.target.clone())
    }

    fn accuracy(&self, batch: &Labelled<B, 4>) -> Option<Tensor<B, 1>> {
        let logits = self.forward(batch.x.clone());
        Some(accuracy::of_classes(logits, batch.target.clone()))
    }
}
