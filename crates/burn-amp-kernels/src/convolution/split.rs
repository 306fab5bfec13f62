//! The weight gradient as a product whose rows are split into parts.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime,
    kernel::{
        cast, into_contiguous,
        matmul::{MatmulStrategy, matmul},
        slice,
    },
    ops::{numeric::add, permute, reshape},
    tensor::CubeTensor,
};

use super::{layout::channels_last, weight_gradient::WeightGradient, windows::windows};
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

/// Returns the gradient, or `None` if its rows need no parts or its dtype is none for a product in low precision.
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
    let (places, window) = (rows * columns, height * width * channels);
    let parts = parts(batch, places, [filters, window])?;
    let is_one_element = height * width == 1
        && options.stride == [1, 1]
        && x.shape().as_slice()[2..] == [rows, columns];
    let chunks = match is_one_element {
        true => 1,
        false => chunks(parts, batch * places * window * dtype.size(), *window_bytes),
    };

    let (images, grad) = (channels_last(x), channels_last(grad));
    let [_, image_height, image_width, _] = images.shape().dims();
    let length = batch * places / parts;
    let mut total = None;
    for chunk in 0..chunks {
        let of = || chunk * batch / chunks..(chunk + 1) * batch / chunks;
        let whole = [of(), 0..image_height, 0..image_width, 0..channels];
        // A slice that does not begin where a device can address it is a copy, with rows as the device likes them.
        let images = into_contiguous(slice(images.clone(), &whole));
        let x = match is_one_element {
            true => images,
            false => windows(&images, [height, width], [rows, columns], options),
        };
        let grad = slice(grad.clone(), &[of(), 0..rows, 0..columns, 0..filters]);
        let in_parts = |tensor, row| reshape(tensor, Shape::new([parts / chunks, length, row]));
        let grad = permute(in_parts(grad, filters), &[0, 2, 1]);
        let sums = matmul(
            grad,
            in_parts(x, window),
            None,
            MatmulStrategy::default(),
            DType::F32,
        );
        let sums = reshape(sums.ok()?, Shape::new([parts / chunks, filters * window]));
        let sums = column_sums_of(&sums)?;
        total = Some(match total {
            Some(total) => add(total, sums),
            None => sums,
        });
    }
    let shape = Shape::new([filters, height, width, channels]);
    let gradient = reshape(cast(total?, dtype), shape);
    Some(permute(gradient, &[0, 3, 1, 2]))
}

/// The number of chunks in which windows of so many bytes are written: whole parts each.
fn chunks(parts: usize, bytes: usize, most: usize) -> usize {
    let divisors = (1..=parts).filter(|chunks| parts.is_multiple_of(*chunks));
    let mut enough = divisors.filter(|chunks| bytes / chunks <= most);
    enough.next().unwrap_or(parts)
}

/// The number of parts: whole images each, as few as fill a device; `None` if one is enough.
fn parts(batch: usize, places: usize, [filters, window]: [usize; 2]) -> Option<usize> {
    let tiles = filters.div_ceil(TILE) * window.div_ceil(TILE);
    if batch * places < FEWEST_ROWS || tiles >= ENOUGH_TILES {
        return None;
    }
    let divisors = (2..=batch.min(MOST_PARTS)).filter(|parts| batch.is_multiple_of(*parts));
    let (enough, fewer): (Vec<_>, Vec<_>) = divisors.partition(|parts| parts * tiles >= TILES);
    enough.first().or(fewer.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::{chunks, parts};

    #[test]
    fn parts_are_whole_images_and_as_few_as_fill_a_device() {
        // The layers of ResNet-50 at a batch of 128: 64 filters of 1 × 1 over 256 channels; 3 × 3; the last ones.
        assert_eq!(parts(128, 56 * 56, [64, 256]), Some(128));
        assert_eq!(parts(128, 28 * 28, [128, 9 * 128]), Some(16));
        assert_eq!(parts(128, 14 * 14, [256, 1024]), Some(8));
        assert_eq!(parts(128, 7 * 7, [512, 2048]), None);
        assert_eq!(parts(1, 1000 * 1000, [64, 64]), None);
        assert_eq!(parts(8, 16 * 16, [64, 64]), None);
        assert_eq!(parts(7, 1000, [1, 1]), Some(7));
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
