//! The choice of a batch, and the random numbers on the host that it is drawn from.

use burn::{
    prelude::*,
    tensor::{Distribution, TensorData},
};
use rand::{SeedableRng, rngs::StdRng};

/// The two parts of the data, which do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Train,
    Valid,
}

/// A batch to draw. The same draw gives the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    pub items: usize,
    pub seed: u64,
    pub part: Part,
}

impl Draw {
    /// A batch to train on.
    pub fn train(items: usize, seed: u64) -> Self {
        let part = Part::Train;
        Self { items, seed, part }
    }

    /// A batch to validate on.
    pub fn valid(items: usize, seed: u64) -> Self {
        let part = Part::Valid;
        Self { items, seed, part }
    }

    pub(crate) fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(match self.part {
            Part::Train => self.seed,
            Part::Valid => !self.seed,
        })
    }
}

/// Standard normal values.
pub(crate) fn normal<B: Backend, const D: usize>(
    shape: [usize; D],
    rng: &mut StdRng,
    device: &B::Device,
) -> Tensor<B, D> {
    Tensor::from_data(normal_data(shape, rng), device)
}

pub(crate) fn normal_data<const D: usize>(shape: [usize; D], rng: &mut StdRng) -> TensorData {
    TensorData::random::<f32, _, _>(shape, Distribution::Normal(0.0, 1.0), rng)
}

/// Indices, row by row.
pub(crate) fn indices<B: Backend, const D: usize>(
    values: Vec<i32>,
    shape: [usize; D],
    device: &B::Device,
) -> Tensor<B, D, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}
