//! U-Net (Ronneberger et al. 2015) with batch norm and convolutions that keep the size.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig},
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    prelude::*,
    tensor::{activation::relu, backend::AutodiffBackend},
};

use crate::{
    Draw, Example, Masked, Net, ZooModel, accuracy, draw::normal, loss::binary_cross_entropy,
    weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct UNetConfig {
    /// Channels of the finest feature map.
    pub width: usize,
    /// Pixels on a side of an image: a multiple of `2^levels`.
    pub image: usize,
    /// The number of times that the image is halved.
    pub levels: usize,
}

const CHANNELS: usize = 3;

impl UNetConfig {
    /// 7,763,041 parameters.
    pub fn full() -> Self {
        Self {
            width: 32,
            image: 256,
            levels: 4,
        }
    }

    pub fn tiny() -> Self {
        Self {
            width: 4,
            image: 32,
            ..Self::full()
        }
    }
}

/// A 3×3 convolution without bias, batch norm and ReLU, twice.
#[derive(Module, Debug)]
struct DoubleConv<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm<B>,
    conv2: Conv2d<B>,
    bn2: BatchNorm<B>,
}

impl<B: Backend> DoubleConv<B> {
    fn new(d_in: usize, d_out: usize, device: &B::Device) -> Self {
        let conv = |d_in| {
            Conv2dConfig::new([d_in, d_out], [3, 3])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .with_bias(false)
                .init(device)
        };
        let norm = || BatchNormConfig::new(d_out).init(device);
        Self {
            conv1: conv(d_in),
            bn1: norm(),
            conv2: conv(d_out),
            bn2: norm(),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let x = relu(self.bn1.forward(self.conv1.forward(x)));
        relu(self.bn2.forward(self.conv2.forward(x)))
    }
}

#[derive(Module, Debug)]
pub struct UNet<B: Backend> {
    down: Vec<DoubleConv<B>>,
    pool: MaxPool2d,
    bottom: DoubleConv<B>,
    up: Vec<ConvTranspose2d<B>>,
    merge: Vec<DoubleConv<B>>,
    head: Conv2d<B>,
}

impl<B: Backend> UNet<B> {
    /// From images `[batch, 3, height, width]` to logits `[batch, 1, height, width]`.
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let mut skips = Vec::with_capacity(self.down.len());
        let x = self.down.iter().fold(x, |x, level| {
            let skip = level.forward(x);
            skips.push(skip.clone());
            self.pool.forward(skip)
        });
        let rising = self.up.iter().zip(&self.merge).zip(skips.into_iter().rev());
        let x = rising.fold(self.bottom.forward(x), |x, ((up, merge), skip)| {
            merge.forward(Tensor::cat(vec![up.forward(x), skip], 1))
        });
        self.head.forward(x)
    }
}

impl ZooModel for UNetConfig {
    type Batch<B: Backend> = Masked<B>;
    type Net<B: Backend> = UNet<B>;
    type TrainNet<B: AutodiffBackend> = UNet<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image, self.image]
    }

    /// Random images; the mask is where the mean over their channels is positive.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Masked<B> {
        let shape = [draw.items, CHANNELS, self.image, self.image];
        let x = normal::<B, 4>(shape, &mut draw.rng(), device);
        let target = x.clone().mean_dim(1).greater_elem(0.0).int();
        Masked { x, target }
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "width" => Some(&mut self.width),
            "image" => Some(&mut self.image),
            "levels" => Some(&mut self.levels),
            _ => None,
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Masked<B>, WeightsError> {
        Masked::read(example, device)
    }
}

impl<B: Backend> Net<B> for UNet<B> {
    type Model = UNetConfig;

    fn init(model: &UNetConfig, device: &B::Device) -> Self {
        let width = |level: usize| model.width << level;
        let levels = 0..model.levels;
        let down = |level| match level {
            0 => DoubleConv::new(CHANNELS, width(0), device),
            _ => DoubleConv::new(width(level - 1), width(level), device),
        };
        let up = |level| {
            ConvTranspose2dConfig::new([width(level + 1), width(level)], [2, 2])
                .with_stride([2, 2])
                .init(device)
        };
        let merge = |level| DoubleConv::new(width(level + 1), width(level), device);
        Self {
            down: levels.clone().map(down).collect(),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            bottom: DoubleConv::new(width(model.levels - 1), width(model.levels), device),
            up: levels.clone().rev().map(up).collect(),
            merge: levels.rev().map(merge).collect(),
            head: Conv2dConfig::new([width(0), 1], [1, 1]).init(device),
        }
    }

    fn loss(&self, batch: &Masked<B>) -> Tensor<B, 1> {
        binary_cross_entropy(self.forward(batch.x.clone()), batch.target.clone())
    }

    fn accuracy(&self, batch: &Masked<B>) -> Option<Tensor<B, 1>> {
        let logits = self.forward(batch.x.clone());
        Some(accuracy::of_yes_or_no(logits, batch.target.clone()))
    }
}
