//! The gradient of the weight of a convolution in groups.

use burn_backend::{DType, Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{
    CubeRuntime,
    ops::{permute, reshape},
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::{
    super::{
        along::{Along, along},
        layout::channels_last,
    },
    groups::{GroupSizes, Grouping},
};
use crate::{
    cube::{
        names::Buffer,
        plan::{address_type, empty_on_device_of, one_each, storage},
    },
    weight_product::column_sums_of,
};

/// The units that keep every multiprocessor of a large device busy.
const UNITS: usize = 1 << 17;
/// The most parts: every device adds the sums of so many in one launch.
const MOST_PARTS: usize = 1024;

/// One unit adds what one part of the output's lines gives to one element of the weight, or to a vector of them, in F32.
///
/// Neighbouring units have neighbouring filters, so what they read of the gradients lies side by side. The windows of a line
/// overlap, so their elements are read from a cache.
#[cube(launch, address_type = "dynamic")]
fn grouped_conv2d_weight_kernel<F: Float, N: Size>(
    images: &Buffer<Vector<F, N>>,
    grad: &Buffer<Vector<F, N>>,
    sums: &mut Buffer<Vector<f32, N>>,
    height: Along,
    width: Along,
    groups: GroupSizes,
    lines: usize,
    lines_per_part: usize,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= sums.len() {
        terminate!();
    }
    let (filter, rest) = (ABSOLUTE_POS % groups.filters, ABSOLUTE_POS / groups.filters);
    let (in_group, rest) = (
        rest % groups.channels_in_group,
        rest / groups.channels_in_group,
    );
    let (in_width, rest) = (rest % width.window, rest / width.window);
    let (in_height, part) = (rest % height.window, rest / height.window);
    let group = filter / groups.filters_in_group;
    let channel = group * groups.channels_in_group + in_group;
    let (first, end) = (width.first_place(in_width), width.end_place(in_width));

    let mut sum = Vector::<f32, N>::zeroed();
    let last_line = ((part + 1) * lines_per_part).min(lines);
    for line in part * lines_per_part..last_line {
        let y = height.padded(line % height.places, in_height);
        if height.is_within(y) {
            let image = line / height.places;
            let row = (image * height.size + (y - height.padding)) * width.size;
            for column in first..end {
                let x = width.padded(column, in_width) - width.padding;
                let value = images[(row + x) * groups.channels + channel];
                let grad = grad[(line * width.places + column) * groups.filters + filter];
                sum += Vector::<f32, N>::cast_from(value) * Vector::<f32, N>::cast_from(grad);
            }
        }
    }
    sums[ABSOLUTE_POS] = sum;
}

/// Computes the gradient; `None` if a device does not add up its parts.
pub fn weight_gradient<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &Shape,
    grad: &CubeTensor<R>,
    options: &ConvOptions<2>,
) -> Option<CubeTensor<R>> {
    let [filters, in_group, window_height, window_width] = weight.dims();
    let (images, grad) = (channels_last(x), channels_last(grad));
    let [_, image_height, image_width, channels] = images.shape().dims();
    let [batch, rows, columns, _] = grad.shape().dims();
    let groups = Grouping::new(x, [filters, channels, in_group], options);
    let elements = weight.num_elements();
    let lines = batch * rows;
    let lines_per_part = lines.div_ceil(parts(lines, elements / groups.vector_size));
    let parts = lines.div_ceil(lines_per_part);
    let sums = empty_on_device_of(x, Shape::new([parts, elements]), DType::F32);
    let (cubes, units) = one_each(&x.client, parts * elements / groups.vector_size);
    let [height, width] = along(
        [image_height, image_width],
        [window_height, window_width],
        [rows, columns],
        options,
    );
    grouped_conv2d_weight_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([&images, &grad, &sums]),
        groups.vector_size,
        images.into_array_arg(),
        grad.clone().into_array_arg(),
        sums.clone().into_array_arg(),
        height,
        width,
        groups.arg(),
        lines,
        lines_per_part,
        storage(x.dtype),
    );
    let shape = Shape::new([window_height, window_width, in_group, filters]);
    let gradient = reshape(column_sums_of(&sums)?, shape);
    Some(permute(gradient, &[3, 2, 0, 1]))
}

/// The number of parts of so many lines, each of which takes so many units: as few as fill a device.
fn parts(lines: usize, units: usize) -> usize {
    UNITS.div_ceil(units).min(MOST_PARTS).min(lines)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_are_as_few_as_fill_a_device() {
        // The first and the last depthwise layer of MobileNetV2 at a batch of 64, in vectors of 4 channels.
        assert_eq!(parts(64 * 112, 9 * 32 / 4), 1024);
        assert_eq!(parts(64 * 7, 9 * 960 / 4), 61);
        assert_eq!(parts(3, 9), 3);
        assert_eq!(parts(100, 1 << 20), 1);
    }
}
