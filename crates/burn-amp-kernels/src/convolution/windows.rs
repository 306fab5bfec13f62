//! The windows of images as the rows of a matrix.

use burn_backend::{Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::along::{Along, along};
use crate::cube::{
    names::Buffer,
    plan::{address_type, empty_on_device_of, one_each, storage, vector_size},
};

/// One unit copies one vector of channels, or writes zeros where a window reaches over the border.
#[cube(launch, address_type = "dynamic")]
fn windows_kernel<F: Float, N: Size>(
    images: &Buffer<Vector<F, N>>,
    rows: &mut Buffer<Vector<F, N>>,
    height: Along,
    width: Along,
    channels: usize,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= rows.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let rest = ABSOLUTE_POS / channels;
    let (in_width, rest) = (rest % width.window, rest / width.window);
    let (in_height, rest) = (rest % height.window, rest / height.window);
    let (column, rest) = (rest % width.places, rest / width.places);
    let (row, image) = (rest % height.places, rest / height.places);
    let y = height.padded(row, in_height);
    let x = width.padded(column, in_width);
    let mut value = Vector::<F, N>::zeroed();
    if height.is_within(y) && width.is_within(x) {
        let line = image * height.size + (y - height.padding);
        value = images[(line * width.size + (x - width.padding)) * channels + channel];
    }
    rows[ABSOLUTE_POS] = value;
}

/// Copies the window of each of `places` into a row. The images are `[batch, height, width, channels]`.
pub(super) fn windows<R: CubeRuntime>(
    images: &CubeTensor<R>,
    window: [usize; 2],
    places: [usize; 2],
    options: &ConvOptions<2>,
) -> CubeTensor<R> {
    let [batch, height, width, channels] = images.shape().dims();
    let row = window[0] * window[1] * channels;
    let shape = Shape::new([batch * places[0] * places[1], row]);
    let rows = empty_on_device_of(images, shape, images.dtype);
    let vector_size = vector_size(&images.client, images.dtype.size(), &[channels]);
    let (cubes, units) = one_each(&images.client, rows.meta.num_elements() / vector_size);
    let [along_height, along_width] = along([height, width], window, places, options);
    windows_kernel::launch::<R>(
        &images.client,
        cubes,
        units,
        address_type([images, &rows]),
        vector_size,
        images.clone().into_array_arg(),
        rows.clone().into_array_arg(),
        along_height,
        along_width,
        channels / vector_size,
        storage(images.dtype),
    );
    rows
}
