//! The U-Net of a diffusion model (Ho et al. 2020): group norms, attention, and the time as an input of each block.

use std::f64::consts::LN_10;

use burn::{
    module::Module,
    nn::{
        GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
        interpolate::{Interpolate2d, Interpolate2dConfig},
    },
    prelude::*,
    tensor::{activation::silu, backend::AutodiffBackend},
};
use rand::RngExt;

use super::attention::SelfAttention;
use crate::{
    Draw, Example, Net, ZooModel,
    draw::{indices, normal},
    weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct DiffusionConfig {
    /// Channels at full resolution, a multiple of 8; each level below has twice as many.
    pub width: usize,
    /// Pixels on a side of an image: a multiple of `2^(levels - 1)`.
    pub image: usize,
    /// Resolutions; the lower ones, all but the first, have attention.
    pub levels: usize,
}

const CHANNELS: usize = 3;

/// Of channels that a norm takes together.
const GROUPS: usize = 8;

const HEADS: usize = 4;

/// Steps from an image to noise.
const TIMES: i32 = 1000;

impl DiffusionConfig {
    /// 27,008,259 parameters.
    pub fn full() -> Self {
        Self {
            width: 128,
            image: 32,
            levels: 3,
        }
    }

    pub fn tiny() -> Self {
        Self {
            width: 8,
            image: 8,
            levels: 2,
        }
    }
}

/// Images with noise, how much, and which.
#[derive(Clone, Debug)]
pub struct Noisy<B: Backend> {
    /// `[batch, 3, height, width]`.
    pub x: Tensor<B, 4>,
    /// `[batch]`, below 1000.
    pub time: Tensor<B, 1, Int>,
    /// The noise to predict, `[batch, 3, height, width]`.
    pub noise: Tensor<B, 4>,
}

fn conv<B: Backend>(channels: [usize; 2], stride: usize, device: &B::Device) -> Conv2d<B> {
    Conv2dConfig::new(channels, [3, 3])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
        .init(device)
}

fn norm<B: Backend>(channels: usize, device: &B::Device) -> GroupNorm<B> {
    GroupNormConfig::new(GROUPS, channels).init(device)
}

/// Two convolutions, between which the time is added, and a shortcut.
#[derive(Module, Debug)]
struct Residual<B: Backend> {
    norm1: GroupNorm<B>,
    conv1: Conv2d<B>,
    time: Linear<B>,
    norm2: GroupNorm<B>,
    conv2: Conv2d<B>,
    shortcut: Option<Conv2d<B>>,
}

impl<B: Backend> Residual<B> {
    fn new([d_in, d_out]: [usize; 2], time: usize, device: &B::Device) -> Self {
        let shortcut = || Conv2dConfig::new([d_in, d_out], [1, 1]).init(device);
        Self {
            norm1: norm(d_in, device),
            conv1: conv([d_in, d_out], 1, device),
            time: LinearConfig::new(time, d_out).init(device),
            norm2: norm(d_out, device),
            conv2: conv([d_out, d_out], 1, device),
            shortcut: (d_in != d_out).then(shortcut),
        }
    }

    fn forward(&self, x: Tensor<B, 4>, time: Tensor<B, 2>) -> Tensor<B, 4> {
        let y = self.conv1.forward(silu(self.norm1.forward(x.clone())));
        let time = self.time.forward(silu(time));
        let y = y + time.unsqueeze_dims(&[2, 3]);
        let y = self.conv2.forward(silu(self.norm2.forward(y)));
        match &self.shortcut {
            Some(shortcut) => shortcut.forward(x) + y,
            None => x + y,
        }
    }
}

/// Attention between all places, added to its input.
#[derive(Module, Debug)]
struct Attention<B: Backend> {
    norm: GroupNorm<B>,
    attention: SelfAttention<B>,
}

impl<B: Backend> Attention<B> {
    fn new(channels: usize, device: &B::Device) -> Self {
        Self {
            norm: norm(channels, device),
            attention: SelfAttention::new(channels, HEADS, device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let shape = x.shape();
        let places = self.norm.forward(x.clone()).flatten::<3>(2, 3);
        let y = self.attention.forward(places.swap_dims(1, 2), None);
        x + y.swap_dims(1, 2).reshape(shape)
    }
}

/// A resolution, on the way down or up.
#[derive(Module, Debug)]
struct Level<B: Backend> {
    residual: Residual<B>,
    attention: Option<Attention<B>>,
    /// To the next resolution, if there is one.
    resize: Option<Conv2d<B>>,
}

impl<B: Backend> Level<B> {
    fn forward(&self, x: Tensor<B, 4>, time: Tensor<B, 2>) -> Tensor<B, 4> {
        let x = self.residual.forward(x, time);
        match &self.attention {
            Some(attention) => attention.forward(x),
            None => x,
        }
    }
}

#[derive(Module, Debug)]
pub struct Diffusion<B: Backend> {
    time1: Linear<B>,
    time2: Linear<B>,
    first: Conv2d<B>,
    down: Vec<Level<B>>,
    bottom: Level<B>,
    up: Vec<Level<B>>,
    larger: Interpolate2d,
    norm: GroupNorm<B>,
    last: Conv2d<B>,
    width: usize,
}

impl<B: Backend> Diffusion<B> {
    /// From images with noise `[batch, 3, height, width]` and times `[batch]` to the noise.
    pub fn forward(&self, x: Tensor<B, 4>, time: Tensor<B, 1, Int>) -> Tensor<B, 4> {
        let time = self.time1.forward(waves(time, self.width));
        let time = self.time2.forward(silu(time));
        let mut x = self.first.forward(x);
        let mut skips = Vec::with_capacity(self.down.len());
        for level in &self.down {
            x = level.forward(x, time.clone());
            skips.push(x.clone());
            if let Some(resize) = &level.resize {
                x = resize.forward(x);
            }
        }
        x = self.bottom.forward(x, time.clone());
        for (level, skip) in self.up.iter().zip(skips.into_iter().rev()) {
            x = level.forward(Tensor::cat(vec![x, skip], 1), time.clone());
            if let Some(resize) = &level.resize {
                x = resize.forward(self.larger.forward(x));
            }
        }
        self.last.forward(silu(self.norm.forward(x)))
    }
}

/// Sines and cosines of times, `[batch, width]`, with wavelengths up to 20,000 π.
fn waves<B: Backend>(time: Tensor<B, 1, Int>, width: usize) -> Tensor<B, 2> {
    let half = width / 2;
    let places = Tensor::<B, 1, Int>::arange(0..half as i64, &time.device()).float();
    let rates = (places * (-4.0 * LN_10 / half as f64)).exp();
    let angles = time.float().unsqueeze_dim::<2>(1) * rates.unsqueeze_dim(0);
    Tensor::cat(vec![angles.clone().sin(), angles.cos()], 1)
}

impl ZooModel for DiffusionConfig {
    type Batch<B: Backend> = Noisy<B>;
    type Net<B: Backend> = Diffusion<B>;
    type TrainNet<B: AutodiffBackend> = Diffusion<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image, self.image]
    }

    /// Noise alone, half of which is to be predicted.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Noisy<B> {
        let mut rng = draw.rng();
        let shape = [draw.items, CHANNELS, self.image, self.image];
        let noise = normal::<B, 4>(shape, &mut rng, device);
        let x = (noise.clone() + normal(shape, &mut rng, device)) * 0.5f32.sqrt();
        let time = (0..draw.items).map(|_| rng.random_range(0..TIMES));
        let time = indices(time.collect(), [draw.items], device);
        Noisy { x, time, noise }
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
    ) -> Result<Noisy<B>, WeightsError> {
        Ok(Noisy {
            x: example.floats("batch.x", device)?,
            time: example.ints("batch.time", device)?,
            noise: example.floats("batch.noise", device)?,
        })
    }
}

impl<B: Backend> Net<B> for Diffusion<B> {
    type Model = DiffusionConfig;

    fn init(model: &DiffusionConfig, device: &B::Device) -> Self {
        let time = 4 * model.width;
        let width = |level: usize| model.width << level;
        let last = model.levels - 1;
        let level = |channels: [usize; 2], has_attention: bool, resize: Option<Conv2d<B>>| Level {
            residual: Residual::new(channels, time, device),
            attention: has_attention.then(|| Attention::new(channels[1], device)),
            resize,
        };
        let down = |at: usize| {
            let smaller = || conv([width(at), width(at)], 2, device);
            let d_in = width(at.saturating_sub(1));
            level([d_in, width(at)], at > 0, (at < last).then(smaller))
        };
        let up = |at: usize| {
            let larger = || conv([width(at), width(at - 1)], 1, device);
            level([2 * width(at), width(at)], at > 0, (at > 0).then(larger))
        };
        Self {
            time1: LinearConfig::new(model.width, time).init(device),
            time2: LinearConfig::new(time, time).init(device),
            first: conv([CHANNELS, model.width], 1, device),
            down: (0..model.levels).map(down).collect(),
            bottom: level([width(last), width(last)], true, None),
            up: (0..model.levels).rev().map(up).collect(),
            larger: Interpolate2dConfig::new()
                .with_scale_factor(Some([2.0, 2.0]))
                .init(),
            norm: norm(model.width, device),
            last: conv([model.width, CHANNELS], 1, device),
            width: model.width,
        }
    }

    fn loss(&self, batch: &Noisy<B>) -> Tensor<B, 1> {
        let error = self.forward(batch.x.clone(), batch.time.clone()) - batch.noise.clone();
        error.powi_scalar(2).mean()
    }
}
