//! The UCI optical digits, see `data/README.md` for source and licence.

use std::sync::Arc;

use burn::{
    data::{
        dataloader::batcher::Batcher,
        dataset::{
            Dataset, InMemDataset,
            transform::{PartialDataset, ShuffledDataset},
        },
    },
    prelude::*,
};
use flate2::read::GzDecoder;

/// Pixels on a side of an image.
pub const SIDE: usize = 8;
pub const CLASSES: usize = 10;

const PIXELS: usize = SIDE * SIDE;
const BRIGHTEST: u8 = 16;
const CSV_GZ: &[u8] = include_bytes!("../data/optdigits.csv.gz");

/// The split is the same whatever the seed of a run, so that runs are tested on the same images.
const SPLIT_SEED: u64 = 1998;
const TRAIN_PERCENT: usize = 80;

#[derive(Clone, Debug, PartialEq)]
pub struct Digit {
    /// Row by row, 0 (white) to 16 (black).
    pub pixels: [u8; PIXELS],
    pub label: u8,
}

pub type Digits = PartialDataset<Arc<ShuffledDataset<InMemDataset<Digit>, Digit>>, Digit>;

pub struct Split {
    pub train: Digits,
    pub test: Digits,
}

/// All digits, shuffled and split into 80 % to train on and 20 % to test on.
pub fn split() -> Split {
    let all = Arc::new(ShuffledDataset::new(InMemDataset::new(read()), SPLIT_SEED));
    let border = all.len() * TRAIN_PERCENT / 100;
    Split {
        train: PartialDataset::new(all.clone(), 0, border),
        test: PartialDataset::new(all.clone(), border, all.len()),
    }
}

fn read() -> Vec<Digit> {
    csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(GzDecoder::new(CSV_GZ))
        .deserialize()
        .map(|row| digit(row.expect("the embedded file is a table of small numbers")))
        .collect()
}

fn digit(row: Vec<u8>) -> Digit {
    let row: [u8; PIXELS + 1] = row
        .try_into()
        .expect("a row of the embedded file is an image and its label");
    let [pixels @ .., label] = row;
    Digit { pixels, label }
}

#[derive(Clone, Debug)]
pub struct DigitBatch<B: Backend> {
    /// `[batch, 1, height, width]`, 0 to 1.
    pub images: Tensor<B, 4>,
    pub labels: Tensor<B, 1, Int>,
}

#[derive(Clone, Debug)]
pub struct DigitBatcher;

impl<B: Backend> Batcher<B, Digit, DigitBatch<B>> for DigitBatcher {
    fn batch(&self, digits: Vec<Digit>, device: &B::Device) -> DigitBatch<B> {
        let brightness = |pixel: &u8| f32::from(*pixel) / f32::from(BRIGHTEST);
        let images: Vec<f32> = digits
            .iter()
            .flat_map(|digit| digit.pixels.iter().map(brightness))
            .collect();
        let labels: Vec<i32> = digits.iter().map(|digit| digit.label.into()).collect();
        DigitBatch {
            images: Tensor::from_data(
                TensorData::new(images, [digits.len(), 1, SIDE, SIDE]),
                device,
            ),
            labels: Tensor::from_data(TensorData::new(labels, [digits.len()]), device),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn holds_the_1797_digits_of_the_source() {
        let digits = read();
        assert_eq!(digits.len(), 1797);
        assert!(
            digits
                .iter()
                .all(|digit| digit.pixels.iter().all(|pixel| *pixel <= BRIGHTEST))
        );
        let labels: HashSet<u8> = digits.iter().map(|digit| digit.label).collect();
        assert_eq!(labels, (0..10).collect());
    }

    #[test]
    fn splits_every_time_in_the_same_way() {
        let [first, second] = [split(), split()];
        assert!(first.train.iter().eq(second.train.iter()));
        assert!(first.test.iter().eq(second.test.iter()));
    }

    #[test]
    fn tests_on_digits_that_it_does_not_train_on() {
        let Split { train, test } = split();
        assert_eq!((train.len(), test.len()), (1437, 360));

        // Every digit of the source is in one of the parts, as often as in the source: so none is in both.
        let sorted = |digits: &mut dyn Iterator<Item = Digit>| {
            let mut digits: Vec<_> = digits.map(|digit| (digit.pixels, digit.label)).collect();
            digits.sort_unstable();
            digits
        };
        assert_eq!(
            sorted(&mut train.iter().chain(test.iter())),
            sorted(&mut read().into_iter())
        );
    }
}
