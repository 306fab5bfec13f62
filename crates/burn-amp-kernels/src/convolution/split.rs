//! The weight gradient as a product whose rows are split into parts.

use burn_backend::{DType, Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{
    CubeRuntime,
    kernel::{
        into_contiguous,
        matmul::{MatmulStrategy, matmul},
        slice,
    },
    ops::{numeric::add, permute, reshape},
    tensor::CubeTensor,
};
use cubecl::zspace::{Strides, metadata::Metadata};

use super::{implicit, layout::channels_last, weight_gradient::WeightGradient, windows::windows};
use crate::weight_product::column_sums_of;

/// The fewest rows for which parts pay: with fewer, a kernel takes microseconds either way.
const FEWEST_ROWS: usize = 4096;
/// The tiles of results, of all parts together, that keep every multiprocessor of a large device busy.
const TILES: usize = 512;
/// The tiles above which a product needs no parts.
const ENOUGH_TILES: usize = 128;
/// The length and the width of a tile.
const TILE: usize = 64;
/// The most parts: every device adds the sums of so many in one launch.
const MOST_PARTS: usize = 4096;

/// Returns the gradient; `None` without elements, or in a dtype that is none for a product in low precision.
pub(super) fn weight_gradient<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &Shape,
    grad: &CubeTensor<R>,
    WeightGradient {
        options,
        window_bytes,
    }: &WeightGradient,
) -> Option<CubeTensor<R>> {
    let dtype = grad.dtype;
    if dtype != x.dtype || !matches!(dtype, DType::F16 | DType::BF16) {
        return None;
    }
    let [filters, channels, height, width] = weight.dims();
    let [batch, _, rows, columns] = grad.shape().dims();
    let elements = [&x.shape(), weight, &grad.shape()].map(Shape::num_elements);
    if elements.contains(&0) {
        return None;
    }
    let (images, grad) = (channels_last(x), channels_last(grad));
    if let Some(gradient) = implicit::weight_gradient(&images, &grad, [height, width], options) {
        return Some(gradient);
    }
    let [_, image_height, image_width, _] = images.shape().dims();

    // Below one another, lines of windows of one line of the images are the windows for each line of the weight, if those
    // move from line to line.
    let lines_apart = if options.stride[0] == 1 { height } else { 1 };
    let window = [height / lines_apart, width];
    let line_step = options.dilation[0];
    let more_lines = (lines_apart - 1) * line_step;
    let lines = rows + more_lines;
    let length = window[0] * width * channels;
    let is_image = window == [1, 1]
        && options.stride == [1, 1]
        && [image_height, image_width] == [lines, columns];
    let bytes = match is_image {
        true => 0,
        false => batch * lines * columns * length * dtype.size(),
    };
    let results = [filters, height * width * channels];
    let parts = parts(batch, rows * columns, results, |parts| {
        bytes / parts <= *window_bytes
    });
    let chunks = chunks(parts, bytes, *window_bytes);

    let images_of_part = batch / parts;
    // The windows of the lines between two images reach into both, so their gradients are zeros there.
    let is_padded = more_lines > 0 && images_of_part > 1;
    let places_of_part = images_of_part * lines * columns;
    let places = places_of_part - more_lines * columns;
    let mut total = None;
    for chunk in 0..chunks {
        let of = || chunk * batch / chunks..(chunk + 1) * batch / chunks;
        // A slice that does not begin where a device can address it is a copy, with rows as the device likes them.
        let part_of = |images: &CubeTensor<R>| {
            let [_, height, width, channels] = images.shape().dims();
            let whole = [of(), 0..height, 0..width, 0..channels];
            into_contiguous(slice(images.clone(), &whole))
        };
        let images = part_of(&images);
        let x = match is_image {
            true => images,
            false => windows(&images, window, [lines, columns], options),
        };
        let (grad, grad_places) = match is_padded {
            true => {
                let each = ConvOptions::new([1; 2], [0; 2], [1; 2], 1);
                let padded = windows(&part_of(&grad), [1; 2], [lines, columns], &each);
                (padded, places_of_part)
            }
            false => (part_of(&grad), images_of_part * rows * columns),
        };
        let parts = parts / chunks;
        let grad = matrices(grad, [parts, 1, places, filters], [grad_places, places]);
        let line_step = line_step * columns;
        let x = matrices(
            x,
            [parts, lines_apart, places, length],
            [places_of_part, line_step],
        );
        let sums = matmul(
            permute(grad, &[0, 1, 3, 2]),
            x,
            None,
            MatmulStrategy::default(),
            DType::F32,
        );
        let shape = Shape::new([parts, lines_apart * filters * length]);
        let sums = reshape(sums.ok()?, shape);
        let sums = match parts {
            1 => sums,
            _ => column_sums_of(&sums)?,
        };
        total = Some(match total {
            Some(total) => add(total, sums),
            None => sums,
        });
    }
    let gradient = total?;
    Some(match lines_apart {
        1 => {
            let shape = Shape::new([filters, height, width, channels]);
            permute(reshape(gradient, shape), &[0, 3, 1, 2])
        }
        _ => {
            let shape = Shape::new([height, filters, width, channels]);
            permute(reshape(gradient, shape), &[1, 3, 0, 2])
        }
    })
}

/// Matrices of rows that follow one another in memory, where each is so many rows behind the one before. They may overlap.
fn matrices<R: CubeRuntime>(
    rows: CubeTensor<R>,
    shape: [usize; 4],
    behind: [usize; 2],
) -> CubeTensor<R> {
    let length = shape[3];
    let strides = Strides::new(&[behind[0] * length, behind[1] * length, length, 1]);
    let meta = Metadata::new(Shape::new(shape), strides);
    CubeTensor::new(rows.client, rows.handle, meta, rows.device, rows.dtype)
}

/// The number of chunks in which windows of so many bytes are written: whole parts each.
pub(super) fn chunks(parts: usize, bytes: usize, most: usize) -> usize {
    let divisors = (1..=parts).filter(|chunks| parts.is_multiple_of(*chunks));
    let mut enough = divisors.filter(|chunks| bytes / chunks <= most);
    enough.next().unwrap_or(parts)
}

/// The number of parts: whole images each, as few as fill a device and fit.
fn parts(
    batch: usize,
    places: usize,
    [filters, window]: [usize; 2],
    fit: impl Fn(usize) -> bool,
) -> usize {
    let tiles = filters.div_ceil(TILE) * window.div_ceil(TILE);
    let is_enough = batch * places < FEWEST_ROWS || tiles >= ENOUGH_TILES;
    let mut divisors = (1..=batch.min(MOST_PARTS)).filter(|parts| batch.is_multiple_of(*parts));
    let fills = |parts: &usize| (is_enough || parts * tiles >= TILES) && fit(*parts);
    let most = divisors.clone().next_back();
    divisors.find(fills).or(most).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::{chunks, parts};

    #[test]
    fn parts_are_whole_images_and_as_few_as_fill_a_device() {
        let parts = |batch, places, results| parts(batch, places, results, |_| true);
        // The layers of ResNet-50 at a batch of 128: 64 filters of 1 × 1 over 256 channels; 3 × 3; the last ones.
        assert_eq!(parts(128, 56 * 56, [64, 256]), 128);
        assert_eq!(parts(128, 28 * 28, [128, 9 * 128]), 16);
        assert_eq!(parts(128, 14 * 14, [256, 1024]), 8);
        assert_eq!(parts(128, 7 * 7, [512, 2048]), 1);
        assert_eq!(parts(1, 1000 * 1000, [64, 64]), 1);
        assert_eq!(parts(8, 16 * 16, [64, 64]), 1);
        assert_eq!(parts(7, 1000, [1, 1]), 7);
        assert_eq!(super::parts(128, 7 * 7, [512, 2048], |parts| parts >= 3), 4);
        assert_eq!(super::parts(6, 7 * 7, [512, 2048], |_| false), 6);
    }

    #[test]
    fn chunks_are_whole_parts_that_take_at_most_so_many_bytes() {
        assert_eq!(chunks(16, 1000, 1000), 1);
        assert_eq!(chunks(16, 1000, 400), 4);
        assert_eq!(chunks(6, 1000, 400), 3);
        assert_eq!(chunks(7, 1000, 400), 7);
        assert_eq!(chunks(2, 1000, 4), 2);
    }
}
