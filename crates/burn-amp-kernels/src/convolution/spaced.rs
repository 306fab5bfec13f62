//! The gradient of the images of a convolution whose windows lie apart, because its stride is larger than they are.
//!
//! burn-cubecl 0.21.0 has two kernels for it, of which one computes zeros: its loop over the windows that cover a place ends
//! before it begins. Which of the two runs is the choice of a measurement. So the gradient is computed with windows side by
//! side, which is the same but for the places between them, where it is zero.

use burn_backend::{Slice, ops::ConvOptions};

use crate::{names::padding_before, prelude::*};

/// Whether there are places between the windows along a dimension.
pub(super) fn has_gaps(weight: &Shape, options: &ConvOptions<2>) -> bool {
    (0..2).any(|dim| options.stride[dim] > extent(weight, options, dim))
}

/// The size of a window along a dimension.
fn extent(weight: &Shape, options: &ConvOptions<2>, dim: usize) -> usize {
    options.dilation[dim] * (weight[2 + dim] - 1) + 1
}

/// Computes the gradient, in the dtype of that of the output. Of the images only the shape is read.
pub(super) fn input_gradient<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvOptions<2>,
) -> FloatTensor<B> {
    let (sizes, windows) = (x.shape(), grad.shape());
    let (device, dtype) = (device_of::<B>(&grad), FloatDType::from(grad.dtype()));
    let padding = padding_before(&options);
    let mut adjacent = options.clone();
    let mut shape = sizes.clone();
    let extents = [0, 1].map(|dim| extent(&weight.shape(), &options, dim));
    for dim in 0..2 {
        if options.stride[dim] > extents[dim] {
            adjacent.stride[dim] = extents[dim];
            adjacent.padding[dim] = Default::default();
            shape[2 + dim] = windows[2 + dim] * extents[dim];
        }
    }
    let like = B::float_empty(shape, &device, dtype);
    let mut gradient = B::conv2d_x_backward(like, weight, grad, adjacent);
    for dim in 0..2 {
        let (stride, extent, size) = (options.stride[dim], extents[dim], sizes[2 + dim]);
        if stride <= extent {
            continue;
        }
        // Each window gets the places up to the next one, then what lies in the padding is cut off.
        let shape = gradient.shape();
        let (before, behind) = (shape[..2 + dim].iter(), shape[3 + dim..].iter());
        let (before, behind): (usize, usize) = (before.product(), behind.product());
        let count = windows[2 + dim];
        let apart = B::float_reshape(gradient, Shape::new([before, count, extent, behind]));
        let gap = Shape::new([before, count, stride - extent, behind]);
        let apart = B::float_cat(vec![apart, B::float_zeros(gap, &device, dtype)], 2);
        let mut row = B::float_reshape(apart, Shape::new([before, count * stride, behind]));
        let (first, length) = (padding[dim], count * stride);
        if first + size > length {
            let rest = Shape::new([before, first + size - length, behind]);
            row = B::float_cat(vec![row, B::float_zeros(rest, &device, dtype)], 1);
        }
        let part = [
            Slice::full(),
            Slice::from(first..first + size),
            Slice::full(),
        ];
        let mut shape = shape;
        shape[2 + dim] = size;
        gradient = B::float_reshape(B::float_slice(row, &part), shape);
    }
    gradient
}
