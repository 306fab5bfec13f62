//! Wasserstein GAN with weight clipping (Arjovsky et al. 2017) over DCGAN-like nets.
//!
//! One training step is one update of the critic and one of the generator, on the same noise. The critic has no norms:
//! clipping would hold their scales at the clip value.

mod nets;

use burn::{
    module::{Module, ModuleMapper, Param, list_param_ids},
    optim::{GradientsParams, LearningRate, Optimizer},
    prelude::*,
    tensor::{TensorData, backend::AutodiffBackend},
};
use rand::{RngExt, rngs::StdRng};

use self::nets::{Critic, Generator};
use crate::{Draw, Example, Net, ZooModel, draw::normal, weights::WeightsError};

/// Bound of the critic's weights, from the paper.
const CLIP: f32 = 0.01;

const CHANNELS: usize = 3;

#[derive(Clone, Debug)]
pub struct WganConfig {
    /// Images have sides of `4 · 2^doublings` pixels.
    pub doublings: usize,
    /// Channels of the finest feature map.
    pub width: usize,
    pub latent: usize,
}

impl WganConfig {
    /// 6,570,820 parameters.
    pub fn full() -> Self {
        Self {
            doublings: 4,
            width: 64,
            latent: 128,
        }
    }

    pub fn tiny() -> Self {
        Self {
            doublings: 2,
            width: 8,
            latent: 16,
        }
    }

    fn image(&self) -> usize {
        4 << self.doublings
    }

    /// Channels from the finest feature map to the coarsest.
    fn widths(&self) -> Vec<usize> {
        (0..self.doublings)
            .map(|level| self.width << level)
            .collect()
    }
}

#[derive(Module, Debug)]
pub struct Wgan<B: Backend> {
    generator: Generator<B>,
    critic: Critic<B>,
}

/// Real images, and the noise from which the generator makes others.
#[derive(Clone, Debug)]
pub struct Images<B: Backend> {
    /// `[batch, 3, side, side]`, -1 to 1.
    pub images: Tensor<B, 4>,
    /// `[batch, latent]`.
    pub noise: Tensor<B, 2>,
}

impl<B: Backend> Wgan<B> {
    /// Images `[batch, 3, side, side]` of -1 to 1 from noise `[batch, latent]`.
    pub fn generate(&self, noise: Tensor<B, 2>) -> Tensor<B, 4> {
        self.generator.forward(noise)
    }

    /// Scores `[batch]` of images, unbounded.
    pub fn criticise(&self, images: Tensor<B, 4>) -> Tensor<B, 1> {
        self.critic.forward(images)
    }

    /// Returns minus the estimated distance: the mean score of generated images minus that of real ones. No gradient
    /// reaches the generator.
    pub fn critic_loss(&self, batch: &Images<B>) -> Tensor<B, 1> {
        let generated = self.generate(batch.noise.clone()).detach();
        self.criticise(generated).mean() - self.criticise(batch.images.clone()).mean()
    }

    /// Returns minus the mean score of generated images.
    pub fn generator_loss(&self, batch: &Images<B>) -> Tensor<B, 1> {
        -self.criticise(self.generate(batch.noise.clone())).mean()
    }
}

/// Clamps weights and biases to `±CLIP`.
struct Clip;

impl<B: AutodiffBackend> ModuleMapper<B> for Clip {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| {
            let require_grad = tensor.is_require_grad();
            let clipped = Tensor::from_inner(tensor.inner().clamp(-CLIP, CLIP));
            clipped.set_require_grad(require_grad)
        })
    }
}

impl ZooModel for WganConfig {
    type Batch<B: Backend> = Images<B>;
    type Net<B: Backend> = Wgan<B>;
    type TrainNet<B: AutodiffBackend> = Wgan<B>;

    /// False: the critic's loss says how good the critic is, not the generator.
    const LOSS_RANKS: bool = false;

    fn item_shape(&self) -> Vec<usize> {
        vec![CHANNELS, self.image(), self.image()]
    }

    /// Real images are discs, each of one colour on black.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Images<B> {
        let mut rng = draw.rng();
        let side = self.image();
        let images: Vec<f32> = (0..draw.items).flat_map(|_| disc(side, &mut rng)).collect();
        let shape = [draw.items, CHANNELS, side, side];
        Images {
            images: Tensor::from_data(TensorData::new(images, shape), device),
            noise: normal([draw.items, self.latent], &mut rng, device),
        }
    }

    fn number(&mut self, name: &str) -> Option<&mut usize> {
        match name {
            "doublings" => Some(&mut self.doublings),
            "width" => Some(&mut self.width),
            "latent" => Some(&mut self.latent),
            _ => None,
        }
    }

    /// Updates the critic, clips it, and updates the generator through the new critic. Returns the critic's loss.
    ///
    /// One optimizer is enough for both, because it keeps a separate state for each parameter.
    fn step<B: AutodiffBackend, O: Optimizer<Wgan<B>, B>>(
        net: Wgan<B>,
        batch: &Images<B>,
        optimizer: &mut O,
        learning_rate: LearningRate,
    ) -> (Wgan<B>, Tensor<B::InnerBackend, 1>) {
        let critic_loss = net.critic_loss(batch);
        let ids = list_param_ids(&net.critic);
        let grads = GradientsParams::from_params(&mut critic_loss.backward(), &net, &ids);
        let mut net = optimizer.step(learning_rate, net, grads);
        net.critic = net.critic.map(&mut Clip);

        let ids = list_param_ids(&net.generator);
        let mut grads = net.generator_loss(batch).backward();
        let grads = GradientsParams::from_params(&mut grads, &net, &ids);
        (
            optimizer.step(learning_rate, net, grads),
            critic_loss.inner(),
        )
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Images<B>, WeightsError> {
        Ok(Images {
            images: example.floats("batch.images", device)?,
            noise: example.floats("batch.noise", device)?,
        })
    }
}

/// Draws an image `[3, side, side]` with a disc that lies wholly inside it; the radius is a quarter of the side.
fn disc(side: usize, rng: &mut StdRng) -> Vec<f32> {
    let radius = side as f32 / 4.0;
    let centre = [(); 2].map(|()| rng.random_range(radius..side as f32 - radius));
    let colour = [(); CHANNELS].map(|()| rng.random_range(-1.0..1.0));
    let offset = |pixel: usize, axis: usize| pixel as f32 + 0.5 - centre[axis];
    let inside = |row, column| offset(row, 0).hypot(offset(column, 1)) < radius;

    let mut pixels = Vec::with_capacity(CHANNELS * side * side);
    for brightness in colour {
        for row in 0..side {
            let pixel = |column| {
                if inside(row, column) {
                    brightness
                } else {
                    -1.0
                }
            };
            pixels.extend((0..side).map(pixel));
        }
    }
    pixels
}

impl<B: Backend> Net<B> for Wgan<B> {
    type Model = WganConfig;

    fn init(model: &WganConfig, device: &B::Device) -> Self {
        Self {
            generator: Generator::new(model, device),
            critic: Critic::new(model, device),
        }
    }

    /// Returns the critic's loss.
    fn loss(&self, batch: &Images<B>) -> Tensor<B, 1> {
        self.critic_loss(batch)
    }
}
