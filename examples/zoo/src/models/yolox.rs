//! YOLOX-nano (Ge et al. 2021): a detector of depthwise convolutions, SiLUs and concatenations.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
        interpolate::{Interpolate2d, Interpolate2dConfig},
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    prelude::*,
    tensor::{activation::silu, backend::AutodiffBackend},
};
use rand::RngExt;

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

/// A convolution without bias that keeps the size at stride 1, batch norm, SiLU.
#[derive(Module, Debug)]
struct Conv<B: Backend> {
    conv: Conv2d<B>,
    bn: BatchNorm<B>,
}

impl<B: Backend> Conv<B> {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &B::Device) -> Self {
        Self::in_groups(channels, kernel, stride, 1, device)
    }

    fn in_groups(
        channels: [usize; 2],
        kernel: usize,
        stride: usize,
        groups: usize,
        device: &B::Device,
    ) -> Self {
        let side = kernel / 2;
        Self {
            conv: Conv2dConfig::new(channels, [kernel, kernel])
                .with_stride([stride, stride])
                .with_padding(PaddingConfig2d::Explicit(side, side, side, side))
                .with_groups(groups)
                .with_bias(false)
                .init(device),
            bn: BatchNormConfig::new(channels[1])
                .with_epsilon(1e-3)
                .init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        silu(self.bn.forward(self.conv.forward(x)))
    }
}

/// A 3×3 convolution over each channel by itself, then a 1×1 one.
#[derive(Module, Debug)]
struct Separable<B: Backend> {
    depthwise: Conv<B>,
    pointwise: Conv<B>,
}

impl<B: Backend> Separable<B> {
    fn new([d_in, d_out]: [usize; 2], stride: usize, device: &B::Device) -> Self {
        Self {
            depthwise: Conv::in_groups([d_in, d_in], 3, stride, d_in, device),
            pointwise: Conv::new([d_in, d_out], 1, 1, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        self.pointwise.forward(self.depthwise.forward(x))
    }
}

#[derive(Module, Debug)]
struct Bottleneck<B: Backend> {
    conv1: Conv<B>,
    conv2: Separable<B>,
    adds: bool,
}

impl<B: Backend> Bottleneck<B> {
    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let y = self.conv2.forward(self.conv1.forward(x.clone()));
        if self.adds { x + y } else { y }
    }
}

/// Two ways, one of them through bottlenecks, that a convolution merges.
#[derive(Module, Debug)]
struct TwoWays<B: Backend> {
    conv1: Conv<B>,
    conv2: Conv<B>,
    blocks: Vec<Bottleneck<B>>,
    conv3: Conv<B>,
}

impl<B: Backend> TwoWays<B> {
    fn new([d_in, d_out]: [usize; 2], blocks: usize, adds: bool, device: &B::Device) -> Self {
        let inner = d_out / 2;
        let block = |_| Bottleneck {
            conv1: Conv::new([inner, inner], 1, 1, device),
            conv2: Separable::new([inner, inner], 1, device),
            adds,
        };
        Self {
            conv1: Conv::new([d_in, inner], 1, 1, device),
            conv2: Conv::new([d_in, inner], 1, 1, device),
            blocks: (0..blocks).map(block).collect(),
            conv3: Conv::new([2 * inner, d_out], 1, 1, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let through = self.conv1.forward(x.clone());
        let through = self
            .blocks
            .iter()
            .fold(through, |x, block| block.forward(x));
        let past = self.conv2.forward(x);
        self.conv3.forward(Tensor::cat(vec![through, past], 1))
    }
}

/// Max pools of three sizes beside their input.
#[derive(Module, Debug)]
struct Pyramid<B: Backend> {
    conv1: Conv<B>,
    pools: Vec<MaxPool2d>,
    conv2: Conv<B>,
}

impl<B: Backend> Pyramid<B> {
    fn new(width: usize, device: &B::Device) -> Self {
        let pool = |side: usize| {
            let edge = side / 2;
            MaxPool2dConfig::new([side, side])
                .with_strides([1, 1])
                .with_padding(PaddingConfig2d::Explicit(edge, edge, edge, edge))
                .init()
        };
        Self {
            conv1: Conv::new([width, width / 2], 1, 1, device),
            pools: [5, 9, 13].map(pool).into(),
            conv2: Conv::new([2 * width, width], 1, 1, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let x = self.conv1.forward(x);
        let pooled = self.pools.iter().map(|pool| pool.forward(x.clone()));
        let all = [x.clone()].into_iter().chain(pooled).collect();
        self.conv2.forward(Tensor::cat(all, 1))
    }
}

/// Finds objects in one of the three maps.
#[derive(Module, Debug)]
struct Head<B: Backend> {
    stem: Conv<B>,
    class_convs: Vec<Separable<B>>,
    frame_convs: Vec<Separable<B>>,
    cls: Conv2d<B>,
    frame: Conv2d<B>,
    object: Conv2d<B>,
}

impl<B: Backend> Head<B> {
    fn new(d_in: usize, width: usize, classes: usize, device: &B::Device) -> Self {
        let convs = || {
            let conv = |_| Separable::new([width, width], 1, device);
            (0..2).map(conv).collect()
        };
        let last = |d_out| Conv2dConfig::new([width, d_out], [1, 1]).init(device);
        Self {
            stem: Conv::new([d_in, width], 1, 1, device),
            class_convs: convs(),
            frame_convs: convs(),
            cls: last(classes),
            frame: last(4),
            object: last(1),
        }
    }

    /// `[batch, 5 + classes, place]`.
    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 3> {
        let x = self.stem.forward(x);
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

#[derive(Module, Debug)]
pub struct Yolox<B: Backend> {
    stem: Conv<B>,
    down: Vec<Separable<B>>,
    stages: Vec<TwoWays<B>>,
    pyramid: Pyramid<B>,
    reduce: Vec<Conv<B>>,
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
        let mut x = self.stem.forward(quarters(x));
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
            x = reduce.forward(x);
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
        let reduce = |level| Conv::new([width(level), width(level - 1)], 1, 1, device);
        let rising = |level| TwoWays::new([width(level), width(level - 1)], one, false, device);
        let smaller = |level| Separable::new([width(level); 2], 2, device);
        let falling = |level: usize| TwoWays::new([width(level + 1); 2], one, false, device);
        let head = |level| Head::new(width(level), width(2), model.classes, device);
        Self {
            stem: Conv::new([4 * CHANNELS, width(0)], 3, 1, device),
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
