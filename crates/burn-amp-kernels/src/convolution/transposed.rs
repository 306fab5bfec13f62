//! Transposed convolutions: each computes the gradient of the images of a convolution, so its gradients are the output and the
//! weight gradient of that convolution.
//!
//! Burn computes the gradient of the weight as a convolution whose windows are as large as the images: a result of a few
//! thousand numbers, with as many terms each as there are places in the batch, which one or two cubes add up.
//!
//! The output is the sum of [windows](super::from_windows), that of one in groups the gradient of a convolution in groups (`grouped`).

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};

use super::{
    Convolution, Direction, InF32, WINDOW_BYTES, as_images, as_sequences,
    from_windows::FromWindows, input_gradient,
};
use crate::prelude::*;

/// Computes a transposed convolution of images `[batch, channels, height, width]` with a weight
/// `[channels, filters, height, width]`. On Burn's `Autodiff` it is one node.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<2>,
    in_f32: InF32,
) -> FloatTensor<B> {
    let direction = Direction::Transposed(options);
    let convolution = Convolution { direction, in_f32 };
    B::run(convolution, ([x, weight], bias).into()).one()
}

/// Computes a transposed convolution of sequences `[batch, channels, length]` with a weight `[channels, filters, length]`.
pub fn forward_1d<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<1>,
    in_f32: InF32,
) -> FloatTensor<B> {
    let ([stride], [padding]) = (options.stride, options.padding);
    let ([padding_out], [dilation]) = (options.padding_out, options.dilation);
    let of_images = ConvTransposeOptions::new(
        [1, stride],
        [0, padding],
        [0, padding_out],
        [1, dilation],
        options.groups,
    );
    let [x, weight] = [x, weight].map(as_images::<B>);
    as_sequences::<B>(forward::<B>(x, weight, bias, of_images, in_f32))
}

/// Computes the output.
pub(super) fn output<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<2>,
) -> FloatTensor<B> {
    let images = output_shape(&x.shape(), &weight.shape(), &options);
    if options.groups == 1 {
        let [_, _, height, width] = images.dims();
        let output = FromWindows {
            direction: Direction::Transposed(options),
            sizes: [height, width],
            window_bytes: WINDOW_BYTES,
        };
        return B::run(output, ([x, weight], bias).into()).one();
    }
    let like = B::float_empty(images, &device_of::<B>(&x), x.dtype().into());
    let output = input_gradient::<B>(like, weight, x, convolution_of(&options));
    match bias {
        Some(bias) => {
            let by_channel = Shape::new([1, bias.shape()[0], 1, 1]);
            B::float_add(output, B::float_reshape(bias, by_channel))
        }
        None => output,
    }
}

fn output_shape(x: &Shape, weight: &Shape, options: &ConvTransposeOptions<2>) -> Shape {
    let size = |at: usize| {
        let windows = (x[2 + at] - 1) * options.stride[at];
        let window = options.dilation[at] * (weight[2 + at] - 1) + 1;
        windows + window + options.padding_out[at] - 2 * options.padding[at]
    };
    Shape::new([x[0], weight[1] * options.groups, size(0), size(1)])
}

/// The numbers of the convolution whose gradient of the images a transposed one computes.
pub(super) fn convolution_of(options: &ConvTransposeOptions<2>) -> ConvOptions<2> {
    ConvOptions::new(
        options.stride,
        options.padding,
        options.dilation,
        options.groups,
    )
}
