//! ResNet-18 and ResNet-50 (He et al. 2015); a bottleneck strides in its 3×3 convolution.

mod block;

use burn::{
    module::Module,
    nn::{
        BatchNorm, Linear, LinearConfig, PaddingConfig2d,
        conv::Conv2d,
        pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig},
    },
    prelude::*,
    tensor::{activation::relu, backend::AutodiffBackend},
};

use self::block::{BasicBlock, Block, Bottleneck, EXPANSION, conv, norm};
use crate::{
    Draw, Example, Labelled, Net, ZooModel, accuracy, loss::cross_entropy, weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct ResNetConfig {
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Whether the blocks are bottlenecks instead of basic blocks.
    pub bottleneck: bool,
    /// Channels of the stem and of the first stage.
    pub width: usize,
    pub classes: usize,
    /// Pixels on a side of an image.
    pub image: usize,
}

const CHANNELS: usize = 3;

/// Pixels on a side of the patterns by which the classes differ.
const TILE: usize = 8;

/// The amplitude of a class's pattern, in standard deviations of the noise: visible only by averaging over the image.
const SIGNAL: f32 = 0.25;

impl ResNetConfig {
    /// ResNet-18: 11,689,512 parameters.
    pub fn full() -> Self {
        Self {
            depths: [2, 2, 2, 2],
            bottleneck: false,
            width: 64,
            classes: 1000,
            image: 224,
        }
    }

    /// ResNet-50: 25,557,032 parameters.
    pub fn full_50() -> Self {
        Self {
            depths: [3, 4, 6, 3],
            bottleneck: true,
            ..Self::full()
        }
    }

    pub fn tiny() -> Self {
        Self::full().tiny_like()
    }

    pub fn tiny_50() -> Self {
        Self::full_50().tiny_like()
    }

    fn tiny_like(self) -> Self {
        Self {
            width: 8,
            classes: 10,
            image: 64,
            ..self
        }
    }
}

#[derive(Module, Debug)]
pub struct ResNet<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm<B>,
    pool: MaxPool2d,
    layer1: Vec<Block<B>>,
    layer2: Vec<Block<B>>,
    layer3: Vec<Block<B>>,
    layer4: Vec<Block<B>>,
    average: AdaptiveAvgPool2d,
    fc: Linear<B>,
}

impl<B: Backend> ResNet<B> {
    /// From images `[batch, 3, height, width]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = relu(self.bn1.forward(self.conv1.forward(x)));
        let x = [&self.layer1, &self.layer2, &self.layer3, &self.layer4]
            .into_iter()
            .flatten()
            .fold(self.pool.forward(x), |x, block| block.forward(x));
        self.fc.forward(self.average.forward(x).flatten(1, 3))
    }
}

impl ZooModel for ResNetConfig {
    type Batch<B: Backend> = Labelled<B, 4>;
    type Net<B: Backend> = ResNet<B>;
    type TrainNet<B: AutodiffBackend> = ResNet<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image, self.image]
    }

    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Labelled<B, 4> {
        let item = [1, CHANNELS, self.image, self.image];
        Labelled::draw(
            draw,
            item,
            [1, CHANNELS, TILE, TILE],
            self.classes,
            SIGNAL,
            device,
        )
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "width" => Some(&mut self.width),
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

impl<B: Backend> Net<B> for ResNet<B> {
    type Model = ResNetConfig;

    fn init(model: &ResNetConfig, device: &B::Device) -> Self {
        let mut d_in = model.width;
        let mut stage = |level: usize| -> Vec<Block<B>> {
            let width = model.width << level;
            let block = |index| {
                let stride = if level > 0 && index == 0 { 2 } else { 1 };
                if model.bottleneck {
                    let block = Bottleneck::new(d_in, width, stride, device);
                    d_in = width * EXPANSION;
                    Block::Bottleneck(block)
                } else {
                    let block = BasicBlock::new(d_in, width, stride, device);
                    d_in = width;
                    Block::Basic(block)
                }
            };
            (0..model.depths[level]).map(block).collect()
        };
        let [layer1, layer2, layer3, layer4] = [stage(0), stage(1), stage(2), stage(3)];
        Self {
            conv1: conv([CHANNELS, model.width], 7, 2, device),
            bn1: norm(model.width, device),
            pool: MaxPool2dConfig::new([3, 3])
                .with_strides([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(),
            layer1,
            layer2,
            layer3,
            layer4,
            average: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            fc: LinearConfig::new(d_in, model.classes).init(device),
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
