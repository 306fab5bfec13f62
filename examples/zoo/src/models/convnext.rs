//! ConvNeXt (Liu et al. 2022): depthwise convolutions, then a feed-forward net over the channels of each place.

use burn::{
    module::{Initializer, Module, Param},
    nn::{
        LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    prelude::*,
    tensor::{activation::gelu, backend::AutodiffBackend},
};

use crate::{
    Draw, Example, Labelled, Net, ZooModel, accuracy, loss::cross_entropy, weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct ConvNextConfig {
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of the first stage; each further one has twice as many.
    pub width: usize,
    pub classes: usize,
    /// Pixels on a side of an image: a multiple of 32.
    pub image: usize,
}

const CHANNELS: usize = 3;

/// Of all layer norms.
const EPSILON: f64 = 1e-6;

/// The factor of each block's result at the beginning.
const SCALE: f64 = 1e-6;

/// Pixels on a side of the patterns by which the classes differ.
const TILE: usize = 8;

/// The amplitude of a class's pattern, in standard deviations of the noise: visible only by averaging over the image.
const SIGNAL: f32 = 0.25;

impl ConvNextConfig {
    /// ConvNeXt-T: 28,589,128 parameters.
    pub fn full() -> Self {
        Self {
            depths: [3, 3, 9, 3],
            width: 96,
            classes: 1000,
            image: 224,
        }
    }

    pub fn tiny() -> Self {
        Self {
            depths: [1, 1, 2, 1],
            width: 8,
            classes: 10,
            image: 64,
        }
    }
}

fn layer_norm<B: Backend>(width: usize, device: &B::Device) -> LayerNorm<B> {
    LayerNormConfig::new(width)
        .with_epsilon(EPSILON)
        .init(device)
}

/// Calls a layer that has the channels last.
fn channels_last<B: Backend>(
    x: Tensor<B, 4>,
    layer: impl Fn(Tensor<B, 4>) -> Tensor<B, 4>,
) -> Tensor<B, 4> {
    layer(x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])
}

#[derive(Module, Debug)]
struct Block<B: Backend> {
    depthwise: Conv2d<B>,
    norm: LayerNorm<B>,
    inner: Linear<B>,
    outer: Linear<B>,
    scale: Param<Tensor<B, 1>>,
}

impl<B: Backend> Block<B> {
    fn new(width: usize, device: &B::Device) -> Self {
        Self {
            depthwise: Conv2dConfig::new([width, width], [7, 7])
                .with_padding(PaddingConfig2d::Explicit(3, 3, 3, 3))
                .with_groups(width)
                .init(device),
            norm: layer_norm(width, device),
            inner: LinearConfig::new(width, 4 * width).init(device),
            outer: LinearConfig::new(4 * width, width).init(device),
            scale: Initializer::Constant { value: SCALE }.init([width], device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = channels_last(self.depthwise.forward(x.clone()), |y| {
            let y = gelu(self.inner.forward(self.norm.forward(y)));
            self.outer.forward(y) * self.scale.val().unsqueeze()
        });
        x + y
    }
}

/// A stage: fewer places and more channels, then the blocks. The first stage makes patches of the image and norms them
/// afterwards.
#[derive(Module, Debug)]
struct Stage<B: Backend> {
    norm: LayerNorm<B>,
    patches: Conv2d<B>,
    blocks: Vec<Block<B>>,
    is_first: bool,
}

impl<B: Backend> Stage<B> {
    fn new([d_in, d_out]: [usize; 2], depth: usize, is_first: bool, device: &B::Device) -> Self {
        let side = if is_first { 4 } else { 2 };
        Self {
            norm: layer_norm(if is_first { d_out } else { d_in }, device),
            patches: Conv2dConfig::new([d_in, d_out], [side, side])
                .with_stride([side, side])
                .init(device),
            blocks: (0..depth).map(|_| Block::new(d_out, device)).collect(),
            is_first,
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let norm = |x| channels_last(x, |x| self.norm.forward(x));
        let x = if self.is_first {
            norm(self.patches.forward(x))
        } else {
            self.patches.forward(norm(x))
        };
        self.blocks.iter().fold(x, |x, block| block.forward(x))
    }
}

#[derive(Module, Debug)]
pub struct ConvNext<B: Backend> {
    stages: Vec<Stage<B>>,
    norm: LayerNorm<B>,
    fc: Linear<B>,
}

impl<B: Backend> ConvNext<B> {
    /// From images `[batch, 3, height, width]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = self.stages.iter().fold(x, |x, stage| stage.forward(x));
        let [batch, channels, ..] = x.dims();
        let mean = x.mean_dim(3).mean_dim(2).reshape([batch, channels]);
        self.fc.forward(self.norm.forward(mean))
    }
}

impl ZooModel for ConvNextConfig {
    type Batch<B: Backend> = Labelled<B, 4>;
    type Net<B: Backend> = ConvNext<B>;
    type TrainNet<B: AutodiffBackend> = ConvNext<B>;

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

impl<B: Backend> Net<B> for ConvNext<B> {
    type Model = ConvNextConfig;

    fn init(model: &ConvNextConfig, device: &B::Device) -> Self {
        let mut d_in = CHANNELS;
        let stage = |level: usize| {
            let d_out = model.width << level;
            let stage = Stage::new([d_in, d_out], model.depths[level], level == 0, device);
            d_in = d_out;
            stage
        };
        Self {
            stages: (0..model.depths.len()).map(stage).collect(),
            norm: layer_norm(d_in, device),
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
