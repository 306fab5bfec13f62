//! YOLOX-nano (Ge et al. 2021): a detector of depthwise convolutions, SiLUs and concatenations.

mod blocks;

use burn::{
    module::Module,
    nn::interpolate::{Interpolate2d, Interpolate2dConfig},
    prelude::*,
    tensor::backend::AutodiffBackend,
};
use rand::RngExt;

use self::blocks::{Head, Pyramid, Separable, TwoWays, activated, conv};
use super::conv_norm::ConvNorm;
use crate::{
    Draw, Example, Labelled, Net, ZooModel,
    draw::{indices, normal},
    loss::binary_cross_entropy,
    weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct YoloxConfig {
    /// Channels of the first convolution.
    pub width: usize,
    /// Blocks of the second and third stage, three times those of the others.
    pub depth: usize,
    pub classes: usize,
    /// Pixels on a side of an image: a multiple of 32.
    pub image: usize,
}

const CHANNELS: usize = 3;

/// Pixels between the places of each of the three maps.
const STRIDES: [usize; 3] = [8, 16, 32];

/// One place in so many has an object.
const RARITY: u32 = 16;

/// Pixels on a side of the patterns by which the classes differ.
const TILE: usize = 8;

/// The amplitude of a class's pattern, in standard deviations of the noise: visible only by averaging over the image.
const SIGNAL: f32 = 0.25;

impl YoloxConfig {
    /// 912,159 parameters.
    pub fn full() -> Self {
        Self {
            width: 16,
            depth: 3,
            classes: 80,
            image: 416,
        }
    }

    pub fn tiny() -> Self {
        Self {
            width: 8,
            depth: 1,
            classes: 3,
            image: 64,
        }
    }

    /// The places of all maps, at each of which the net may find an object.
    fn places(&self) -> usize {
        let places = STRIDES.map(|stride| (self.image / stride).pow(2));
        places.iter().sum()
    }
}

/// Images, with what is at each place of the net's maps. Which box belongs to which place is decided before.
#[derive(Clone, Debug)]
pub struct Boxes<B: Backend> {
    /// `[batch, 3, height, width]`.
    pub x: Tensor<B, 4>,
    /// Whether there is an object, `[batch, place]`, 0 or 1.
    pub object: Tensor<B, 2, Int>,
    /// Its class, `[batch, place]`.
    pub class: Tensor<B, 2, Int>,
    /// Its center and size, `[batch, 4, place]`.
    pub frame: Tensor<B, 3>,
}

#[derive(Module, Debug)]
pub struct Yolox<B: Backend> {
    stem: ConvNorm<B>,
    down: Vec<Separable<B>>,
    stages: Vec<TwoWays<B>>,
    pyramid: Pyramid<B>,
    reduce: Vec<ConvNorm<B>>,
    larger: Interpolate2d,
    rising: Vec<TwoWays<B>>,
    smaller: Vec<Separable<B>>,
    falling: Vec<TwoWays<B>>,
    heads: Vec<Head<B>>,
}

impl<B: Backend> Yolox<B> {
    /// From images `[batch, 3, height, width]` to `[batch, 5 + classes, place]`: center and size, a logit for an object, and one for
    /// each class.
    pub fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 3> {
        let mut x = activated(&self.stem, quarters(x));
        let mut maps = Vec::new();
        let last = self.stages.len() - 1;
        for (index, (down, stage)) in self.down.iter().zip(&self.stages).enumerate() {
            x = down.forward(x);
            if index == last {
                x = self.pyramid.forward(x);
            }
            x = stage.forward(x);
            maps.push(x.clone());
        }

        // To the finest of three maps and back; each way meets the other one.
        let mut reduced = Vec::new();
        for ((reduce, merge), map) in self
            .reduce
            .iter()
            .zip(&self.rising)
            .zip(maps.iter().rev().skip(1))
        {
            x = activated(reduce, x);
            reduced.push(x.clone());
            x = merge.forward(Tensor::cat(vec![self.larger.forward(x), map.clone()], 1));
        }
        let mut found = vec![self.heads[0].forward(x.clone())];
        let falling = self
            .smaller
            .iter()
            .zip(&self.falling)
            .zip(reduced.into_iter().rev());
        for (((smaller, merge), map), head) in falling.zip(&self.heads[1..]) {
            x = merge.forward(Tensor::cat(vec![smaller.forward(x), map], 1));
            found.push(head.forward(x.clone()));
        }
        Tensor::cat(found, 2)
    }
}

/// Every second pixel of every second row, four times, as channels of a quarter of the places.
fn quarters<B: Backend>(x: Tensor<B, 4>) -> Tensor<B, 4> {
    let quarter = |row, column| x.clone().slice(s![.., .., row..;2, column..;2]);
    let all = vec![quarter(0, 0), quarter(1, 0), quarter(0, 1), quarter(1, 1)];
    Tensor::cat(all, 1)
}

impl ZooModel for YoloxConfig {
    type Batch<B: Backend> = Boxes<B>;
    type Net<B: Backend> = Yolox<B>;
    type TrainNet<B: AutodiffBackend> = Yolox<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image, self.image]
    }

    /// All objects of an image are of one class.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Boxes<B> {
        let item = [1, CHANNELS, self.image, self.image];
        let tile = [1, CHANNELS, TILE, TILE];
        let images = Labelled::<B, 4>::draw(draw, item, tile, self.classes, SIGNAL, device);
        let mut rng = draw.rng();
        let shape = [draw.items, self.places()];
        let object = (0..shape[0] * shape[1]).map(|_| i32::from(rng.random_range(0..RARITY) == 0));
        Boxes {
            x: images.x,
            object: indices(object.collect(), shape, device),
            class: images.target.unsqueeze_dim::<2>(1).repeat_dim(1, shape[1]),
            frame: normal([shape[0], 4, shape[1]], &mut rng, device),
        }
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "width" => Some(&mut self.width),
            "depth" => Some(&mut self.depth),
            "classes" => Some(&mut self.classes),
            "image" => Some(&mut self.image),
            _ => None,
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Boxes<B>, WeightsError> {
        Ok(Boxes {
            x: example.floats("batch.x", device)?,
            object: example.ints("batch.object", device)?,
            class: example.ints("batch.class", device)?,
            frame: example.floats("batch.frame", device)?,
        })
    }
}

impl<B: Backend> Net<B> for Yolox<B> {
    type Model = YoloxConfig;

    fn init(model: &YoloxConfig, device: &B::Device) -> Self {
        let width = |level: usize| model.width << level;
        let (one, many) = (1.max(model.depth / 3), model.depth);
        let blocks = [one, many, many, one];
        let stage = |level: usize| {
            let adds = level < 3;
            let channels = [width(level + 1); 2];
            TwoWays::new(channels, blocks[level], adds, device)
        };
        let down = |level| Separable::new([width(level), width(level + 1)], 2, device);
        let reduce = |level| conv([width(level), width(level - 1)], 1, 1, 1, device);
        let rising = |level| TwoWays::new([width(level), width(level - 1)], one, false, device);
        let smaller = |level| Separable::new([width(level); 2], 2, device);
        let falling = |level: usize| TwoWays::new([width(level + 1); 2], one, false, device);
        let head = |level| Head::new(width(level), width(2), model.classes, device);
        Self {
            stem: conv([4 * CHANNELS, width(0)], 3, 1, 1, device),
            down: (0..4).map(down).collect(),
            stages: (0..4).map(stage).collect(),
            pyramid: Pyramid::new(width(4), device),
            reduce: [4, 3].map(reduce).into(),
            larger: Interpolate2dConfig::new()
                .with_scale_factor(Some([2.0, 2.0]))
                .init(),
            rising: [4, 3].map(rising).into(),
            smaller: [2, 3].map(smaller).into(),
            falling: [2, 3].map(falling).into(),
            heads: [2, 3, 4].map(head).into(),
        }
    }

    /// The binary cross entropies of objects and classes, and the distance to the boxes, where there are objects.
    fn loss(&self, batch: &Boxes<B>) -> Tensor<B, 1> {
        let found = self.forward(batch.x.clone());
        let [_, numbers, _] = found.dims();
        let is_there = batch.object.clone().float().unsqueeze_dim::<3>(1);
        let frame = found.clone().narrow(1, 0, 4) - batch.frame.clone();
        let frame = (frame.abs() * is_there).mean();
        let object = found.clone().narrow(1, 4, 1).squeeze_dim(1);
        let object = binary_cross_entropy(object, batch.object.clone());
        let classes = numbers - 5;
        let class = batch.class.clone().one_hot(classes).swap_dims(1, 2);
        frame + object + binary_cross_entropy(found.narrow(1, 5, classes), class)
    }
}
