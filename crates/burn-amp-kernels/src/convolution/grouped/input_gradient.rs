//! The gradient of the images of a convolution in groups.

use burn_backend::{Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{CubeRuntime, ops::permute, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    super::{
        along::{Along, along},
        layout::{channels_last, weight_filters_last},
    },
    groups::{GroupSizes, Grouping},
};
use crate::cube::{
    names::Buffer,
    plan::{address_type, empty_on_device_of, one_each, storage},
};

/// One unit computes the gradient of one element of the images, or of a vector of them, in F32, from all windows that have
/// it.
#[cube(launch, address_type = "dynamic")]
fn grouped_conv2d_input_kernel<F: Float, N: Size>(
    grad: &Buffer<Vector<F, N>>,
    weight: &Buffer<Vector<F, N>>,
    images: &mut Buffer<Vector<F, N>>,
    height: Along,
    width: Along,
    groups: GroupSizes,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= images.len() {
        terminate!();
    }
    let (channel, rest) = (
        ABSOLUTE_POS % groups.channels,
        ABSOLUTE_POS / groups.channels,
    );
    let (x, rest) = (rest % width.size, rest / width.size);
    let (y, image) = (rest % height.size, rest / height.size);
    let (y, x) = (y + height.padding, x + width.padding);
    let in_group = channel % groups.channels_in_group;
    let first_filter = channel / groups.channels_in_group * groups.filters_in_group;

    let mut sum = Vector::<f32, N>::zeroed();
    for in_height in 0..height.window {
        if height.has_window(y, in_height) {
            let line = (image * height.places + height.window_at(y, in_height)) * width.places;
            for in_width in 0..width.window {
                if width.has_window(x, in_width) {
                    let place = (line + width.window_at(x, in_width)) * groups.filters;
                    let element = (in_height * width.window + in_width) * groups.channels_in_group;
                    let element = (element + in_group) * groups.filters;
                    for filter in first_filter..first_filter + groups.filters_in_group {
                        let grad = Vector::<f32, N>::cast_from(grad[place + filter]);
                        sum += grad * Vector::<f32, N>::cast_from(weight[element + filter]);
                    }
                }
            }
        }
    }
    images[ABSOLUTE_POS] = Vector::cast_from(sum);
}

/// Computes the gradient of images of such a shape, with their channels last in memory.
pub fn input_gradient<R: CubeRuntime>(
    images: &Shape,
    weight: &CubeTensor<R>,
    grad: &CubeTensor<R>,
    options: &ConvOptions<2>,
) -> CubeTensor<R> {
    let [batch, channels, image_height, image_width] = images.dims();
    let [filters, in_group, window_height, window_width] = weight.shape().dims();
    let shape = Shape::new([batch, image_height, image_width, channels]);
    let gradient = empty_on_device_of(grad, shape, grad.dtype);
    let grad = channels_last(grad);
    let [_, rows, columns, _] = grad.shape().dims();
    let groups = Grouping::new(&grad, [filters, channels, in_group], options);
    let elements = gradient.meta.num_elements();
    let (cubes, units) = one_each(&grad.client, elements / groups.vector_size);
    let [height, width] = along(
        [image_height, image_width],
        [window_height, window_width],
        [rows, columns],
        options,
    );
    grouped_conv2d_input_kernel::launch::<R>(
        &gradient.client,
        cubes,
        units,
        address_type([&grad, &gradient]),
        groups.vector_size,
        grad.clone().into_array_arg(),
        weight_filters_last(weight).into_array_arg(),
        gradient.clone().into_array_arg(),
        height,
        width,
        groups.arg(),
        storage(grad.dtype),
    );
    permute(gradient, &[0, 3, 1, 2])
}
