//! The kernel that adds windows up to images.

use burn_backend::{Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{
    CubeRuntime,
    kernel::{
        into_contiguous,
        matmul::{MatmulStrategy, matmul},
        slice,
    },
    ops::{permute, reshape},
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::{
    along::{Along, along},
    layout::channels_last,
    split::chunks,
};
use crate::cube::{
    names::{Buffer, OwnedBuffer},
    plan::{Rows, address_type, empty_on_device_of, one_each, storage, vector_size},
};

/// One unit adds up one vector of channels, of all windows that cover its place.
#[cube(launch, address_type = "dynamic")]
fn add_windows_kernel<F: Float, P: Float, N: Size>(
    windows: &Buffer<Vector<F, N>>,
    bias: &ComptimeOption<OwnedBuffer<Vector<P, N>>>,
    images: &mut Buffer<Vector<F, N>>,
    height: Along,
    width: Along,
    channels: usize,
    pitch: usize,
    first_image: usize,
    count: usize,
    #[define(F, P)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let (channel, rest) = (ABSOLUTE_POS % channels, ABSOLUTE_POS / channels);
    let (x, rest) = (rest % width.size, rest / width.size);
    let (y, image) = (rest % height.size, rest / height.size);
    let (y, x) = (y + height.padding, x + width.padding);
    #[comptime]
    let mut sum = match bias {
        ComptimeOption::Some(bias) => Vector::<f32, N>::cast_from(bias[channel]),
        ComptimeOption::None => Vector::<f32, N>::zeroed(),
    };
    for in_height in 0..height.window {
        if height.has_window(y, in_height) {
            let line = (image * height.places + height.window_at(y, in_height)) * width.places;
            for in_width in 0..width.window {
                if width.has_window(x, in_width) {
                    let row = (line + width.window_at(x, in_width)) * pitch;
                    let element = (in_height * width.window + in_width) * channels;
                    sum += Vector::cast_from(windows[row + element + channel]);
                }
            }
        }
    }
    images[first_image * height.size * width.size * channels + ABSOLUTE_POS] =
        Vector::cast_from(sum);
}

/// Computes images of such a height and width, of which `x` has one place for each window, with windows of so many images at a time that
/// they take at most `most` bytes; `None` if the device has no product for it.
pub(super) fn add_windows<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    bias: Option<&CubeTensor<R>>,
    sizes: [usize; 2],
    options: &ConvOptions<2>,
    most: usize,
) -> Option<CubeTensor<R>> {
    let [filters, channels, height, width] = weight.shape().dims();
    let [batch, _, rows, columns] = x.shape().dims();
    let length = height * width * channels;
    let weight = reshape(channels_last(weight), Shape::new([filters, length]));
    let x = channels_last(x);
    let shape = Shape::new([batch, sizes[0], sizes[1], channels]);
    let images = empty_on_device_of(&x, shape, x.dtype);
    let bias = bias.map(|bias| into_contiguous(bias.clone()));
    let bias_dtype = bias.as_ref().map_or(x.dtype, |bias| bias.dtype);
    let bytes = batch * rows * columns * length * x.dtype.size();
    let chunks = chunks(batch, bytes, most);
    for chunk in 0..chunks {
        let part = chunk * batch / chunks..(chunk + 1) * batch / chunks;
        let (first, count) = (part.start, part.len());
        let x = into_contiguous(slice(x.clone(), &[part, 0..rows, 0..columns, 0..filters]));
        let x = reshape(x, Shape::new([count * rows * columns, filters]));
        let windows = matmul(
            x,
            weight.clone(),
            None,
            MatmulStrategy::default(),
            images.dtype,
        );
        let windows = Rows::new(windows.ok()?);
        let widest = images.dtype.size().max(bias_dtype.size());
        let vector_size = vector_size(&images.client, widest, &[channels, windows.pitch]);
        let count = count * sizes[0] * sizes[1] * channels / vector_size;
        let (cubes, units) = one_each(&images.client, count);
        let [along_height, along_width] = along(sizes, [height, width], [rows, columns], options);
        add_windows_kernel::launch::<R>(
            &images.client,
            cubes,
            units,
            address_type([&windows.tensor, &images]),
            vector_size,
            windows.memory(),
            bias.clone().map(|bias| bias.into_array_arg()).into(),
            images.clone().into_array_arg(),
            along_height,
            along_width,
            channels / vector_size,
            windows.pitch / vector_size,
            first,
            count,
            [images.dtype, bias_dtype].map(storage),
        );
    }
    Some(permute(images, &[0, 3, 1, 2]))
}
