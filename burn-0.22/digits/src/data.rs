//! The UCI optical digits; `examples/digits/data/README.md` names source and licence.

use anyhow::{Context, Result};
use burn::tensor::{Device, Int, Tensor, TensorData};
use flate2::read::GzDecoder;

/// Pixels on a side of an image.
pub const SIDE: usize = 8;
pub const CLASSES: usize = 10;

const PIXELS: usize = SIDE * SIDE;
const BRIGHTEST: f32 = 16.0;
const CSV_GZ: &[u8] = include_bytes!("../../../examples/digits/data/optdigits.csv.gz");

/// The digits of every fifth row are tested on, so that the split is the same in every run.
const TESTED: usize = 5;

/// An image, row by row from 0 (white) to 1 (black), and its class.
#[derive(Clone, Debug)]
pub struct Digit {
    pixels: [f32; PIXELS],
    class: i64,
}

/// Images `[batch, 1, height, width]` and their classes `[batch]`.
#[derive(Clone, Debug)]
pub struct Batch {
    pub images: Tensor<4>,
    pub classes: Tensor<1, Int>,
}

/// Reads the digits to train on, and those to test on.
pub fn read() -> Result<[Vec<Digit>; 2]> {
    let mut split = [Vec::new(), Vec::new()];
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(GzDecoder::new(CSV_GZ));
    for (number, row) in rows.deserialize().enumerate() {
        let row: Vec<u8> = row.context("the embedded file is a table of small numbers")?;
        let (class, pixels) = row
            .split_last()
            .context("a row has an image and its class")?;
        let brightness = |place: usize| f32::from(pixels[place]) / BRIGHTEST;
        let digit = Digit {
            pixels: std::array::from_fn(brightness),
            class: i64::from(*class),
        };
        split[usize::from(number % TESTED == 0)].push(digit);
    }
    Ok(split)
}

/// Puts digits on a device.
pub fn batch<'a>(
    digits: impl ExactSizeIterator<Item = &'a Digit> + Clone,
    device: &Device,
) -> Batch {
    let shape = [digits.len(), 1, SIDE, SIDE];
    let pixels: Vec<f32> = digits.clone().flat_map(|digit| digit.pixels).collect();
    let classes: Vec<i64> = digits.map(|digit| digit.class).collect();
    let count = classes.len();
    Batch {
        images: Tensor::from_data(TensorData::new(pixels, shape), device),
        classes: Tensor::from_data(TensorData::new(classes, [count]), device),
    }
}
