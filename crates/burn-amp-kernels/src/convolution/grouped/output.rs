//! The output of a convolution in groups.

use burn_backend::{Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    super::{
        along::{Along, along},
        layout::{channels_last, weight_filters_last},
        output_sizes,
    },
    groups::{GroupSizes, Grouping},
};
use crate::cube::{
    names::{Buffer, OwnedBuffer},
    plan::{address_type, empty_on_device_of, one_each, storage},
};

/// One unit computes one element of the output, or a vector of them, in F32.
#[cube(launch, address_type = "dynamic")]
fn grouped_conv2d_kernel<F: Float, N: Size>(
    images: &Buffer<Vector<F, N>>,
    weight: &Buffer<Vector<F, N>>,
    bias: &ComptimeOption<OwnedBuffer<Vector<F, N>>>,
    output: &mut Buffer<Vector<F, N>>,
    height: Along,
    width: Along,
    groups: GroupSizes,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let (filter, rest) = (ABSOLUTE_POS % groups.filters, ABSOLUTE_POS / groups.filters);
    let (column, rest) = (rest % width.places, rest / width.places);
    let (row, image) = (rest % height.places, rest / height.places);
    let first_channel = filter / groups.filters_in_group * groups.channels_in_group;
    let (first, end) = (width.first_element(column), width.end_element(column));

    #[comptime]
    let mut sum = match bias {
        ComptimeOption::Some(bias) => Vector::<f32, N>::cast_from(bias[filter]),
        ComptimeOption::None => Vector::<f32, N>::zeroed(),
    };
    for in_height in height.first_element(row)..height.end_element(row) {
        let y = height.padded(row, in_height) - height.padding;
        let line = (image * height.size + y) * width.size;
        for in_width in first..end {
            let x = width.padded(column, in_width) - width.padding;
            let channel = (line + x) * groups.channels + first_channel;
            let element = (in_height * width.window + in_width) * groups.channels_in_group;
            for in_group in 0..groups.channels_in_group {
                let value = images[channel + in_group];
                let weight = weight[(element + in_group) * groups.filters + filter];
                sum += Vector::<f32, N>::cast_from(value) * Vector::<f32, N>::cast_from(weight);
            }
        }
    }
    output[ABSOLUTE_POS] = Vector::cast_from(sum);
}

/// Computes the output, with its channels last in memory.
pub fn output<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    bias: Option<&CubeTensor<R>>,
    options: &ConvOptions<2>,
) -> CubeTensor<R> {
    let [batch, channels, image_height, image_width] = x.shape().dims();
    let [filters, in_group, window_height, window_width] = weight.shape().dims();
    let [rows, columns] = output_sizes(&x.shape(), &weight.shape(), options);
    let shape = Shape::new([batch, rows, columns, filters]);
    let output = empty_on_device_of(x, shape, x.dtype);
    let images = channels_last(x);
    let groups = Grouping::new(x, [filters, channels, in_group], options);
    let (cubes, units) = one_each(&x.client, output.meta.num_elements() / groups.vector_size);
    let [height, width] = along(
        [image_height, image_width],
        [window_height, window_width],
        [rows, columns],
        options,
    );
    let bias = bias.map(|bias| into_contiguous(bias.clone()).into_array_arg());
    grouped_conv2d_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([&images, &output]),
        groups.vector_size,
        images.into_array_arg(),
        weight_filters_last(weight).into_array_arg(),
        bias.into(),
        output.clone().into_array_arg(),
        height,
        width,
        groups.arg(),
        storage(x.dtype),
    );
    permute(output, &[0, 3, 1, 2])
}
