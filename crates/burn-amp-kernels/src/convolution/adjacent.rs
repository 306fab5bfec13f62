//! The gradient of the images of a convolution whose windows lie side by side, because its stride is their size: each place of
//! the images is in one window, so nothing is added up.
//!
//! Burn 0.21 has no kernel of tensor cores for a stride other than 1. It writes the product of the weight and the gradient as
//! columns and gathers images from them, whose channels come first.

use burn_backend::ops::ConvOptions;

use crate::prelude::*;

/// Whether the windows of a convolution in one group cover the images without padding, and more than a place each.
pub(super) fn are_adjacent(
    images: &Shape,
    windows: &Shape,
    weight: &Shape,
    options: &ConvOptions<2>,
) -> bool {
    options.groups == 1
        && options.stride != [1; 2]
        && (2..4).all(|dim| {
            let size = weight[dim];
            let is_solid = size == 1 || options.dilation[dim - 2] == 1;
            options.stride[dim - 2] == size && is_solid && images[dim] == windows[dim] * size
        })
}

/// Computes the gradient as one product, whose rows are then moved to their places.
pub(super) fn input_gradient<B: AmpBackend>(
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let [batch, filters, rows, columns] = grad.shape().dims();
    let [_, channels, height, width] = weight.shape().dims();
    let [grad, weight] = [grad, weight].map(|tensor| B::float_permute(tensor, &[0, 2, 3, 1]));
    let windows = Shape::new([batch * rows * columns, filters]);
    let window = Shape::new([filters, height * width * channels]);
    let product = B::float_matmul(
        B::float_reshape(grad, windows),
        B::float_reshape(weight, window),
    );
    let lines = Shape::new([batch, rows, columns, height, width * channels]);
    let lines = B::float_permute(B::float_reshape(product, lines), &[0, 1, 3, 2, 4]);
    let images = Shape::new([batch, rows * height, columns * width, channels]);
    B::float_permute(B::float_reshape(lines, images), &[0, 3, 1, 2])
}
