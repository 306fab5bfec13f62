//! Batches that several models share.

use burn::{prelude::*, tensor::TensorData};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    Draw, Example,
    draw::{indices, normal_data},
    weights::WeightsError,
};

/// A batch of items with their classes.
#[derive(Clone, Debug)]
pub struct Labelled<B: Backend, const D: usize> {
    /// `[batch, ..]`.
    pub x: Tensor<B, D>,
    /// `[batch]`.
    pub target: Tensor<B, 1, Int>,
}

/// A batch of images, each with a mask.
#[derive(Clone, Debug)]
pub struct Masked<B: Backend> {
    /// `[batch, channel, height, width]`.
    pub x: Tensor<B, 4>,
    /// `[batch, 1, height, width]`, 0 or 1.
    pub target: Tensor<B, 4, Int>,
}

/// A batch of token sequences, with the token to predict at each position.
#[derive(Clone, Debug)]
pub struct Sequences<B: Backend> {
    /// `[batch, position]`.
    pub tokens: Tensor<B, 2, Int>,
    /// `[batch, position]`.
    pub target: Tensor<B, 2, Int>,
}

impl<B: Backend, const D: usize> Labelled<B, D> {
    /// Draws items `[batch, ..]`: standard normal noise over a faint pattern that depends on the class.
    ///
    /// The pattern of a class is the same in every draw. It has the shape `tile` and repeats where an item is larger,
    /// so images differ by their texture. Its amplitude is `signal` standard deviations of the noise.
    pub(crate) fn draw(
        draw: Draw,
        item: [usize; D],
        tile: [usize; D],
        classes: usize,
        signal: f32,
        device: &B::Device,
    ) -> Self {
        let mut rng = draw.rng();
        let classes = i32::try_from(classes).expect("a class has a number of 32 bits");
        let target: Vec<i32> = (0..draw.items)
            .map(|_| rng.random_range(0..classes))
            .collect();

        let mut shape = item;
        shape[0] = draw.items;
        let mut x = values(normal_data(shape, &mut rng));
        let places: Vec<usize> = (0..item[1..].iter().product())
            .map(|index| place(index, &item[1..], &tile[1..]))
            .collect();
        for (values, class) in x.chunks_mut(places.len()).zip(&target) {
            let pattern = pattern(*class, tile);
            for (value, place) in values.iter_mut().zip(&places) {
                *value += signal * pattern[*place];
            }
        }

        Self {
            x: Tensor::from_data(TensorData::new(x, shape), device),
            target: indices(target, [draw.items], device),
        }
    }
}

impl<B: Backend, const D: usize> Labelled<B, D> {
    /// Reads `batch.x` and `batch.target`.
    pub(crate) fn read(example: &Example, device: &B::Device) -> Result<Self, WeightsError> {
        Ok(Self {
            x: example.floats("batch.x", device)?,
            target: example.ints("batch.target", device)?,
        })
    }
}

impl<B: Backend> Masked<B> {
    /// Reads `batch.x` and `batch.target`, which is a float in PyTorch.
    pub(crate) fn read(example: &Example, device: &B::Device) -> Result<Self, WeightsError> {
        let target: Tensor<B, 4> = example.floats("batch.target", device)?;
        Ok(Self {
            x: example.floats("batch.x", device)?,
            target: target.int(),
        })
    }
}

impl<B: Backend> Sequences<B> {
    /// Reads `batch.tokens` and `batch.target`.
    pub(crate) fn read(example: &Example, device: &B::Device) -> Result<Self, WeightsError> {
        Ok(Self {
            tokens: example.ints("batch.tokens", device)?,
            target: example.ints("batch.target", device)?,
        })
    }
}

fn pattern<const D: usize>(class: i32, tile: [usize; D]) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(u64::from(class.unsigned_abs()));
    let mut shape = tile;
    shape[0] = 1;
    values(normal_data(shape, &mut rng))
}

/// Returns the index within a tile of the element at `index` of an item of the shape `dims`.
fn place(index: usize, dims: &[usize], tile: &[usize]) -> usize {
    let (mut place, mut rest, mut stride) = (0, index, 1);
    for (dim, side) in dims.iter().zip(tile).rev() {
        place += rest % dim % side * stride;
        rest /= dim;
        stride *= side;
    }
    place
}

fn values(data: TensorData) -> Vec<f32> {
    data.into_vec().expect("they were drawn as f32")
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn a_pattern_repeats_in_height_and_width_but_not_over_the_channels() {
        let places: Vec<usize> = (0..2 * 3 * 4)
            .map(|index| place(index, &[2, 3, 4], &[2, 2, 2]))
            .collect();
        let channel = [0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1];
        let expected: Vec<usize> = [0, 4]
            .iter()
            .flat_map(|offset| channel.map(|place| place + offset))
            .collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn the_same_draw_gives_the_same_batch_and_another_part_another() {
        let draw = |draw| {
            let batch =
                Labelled::<Flex, 2>::draw(draw, [0, 6], [1, 6], 10, 0.5, &Default::default());
            (batch.x.into_data(), batch.target.into_data())
        };
        assert_eq!(draw(Draw::train(4, 7)), draw(Draw::train(4, 7)));
        assert_ne!(draw(Draw::train(4, 7)), draw(Draw::train(4, 8)));
        assert_ne!(draw(Draw::train(4, 7)), draw(Draw::valid(4, 7)));
    }
}
