//! The layouts in which the kernels read images and weights.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};

/// Images with their channels last in memory, as `[batch, height, width, channels]`.
pub(super) fn channels_last<R: CubeRuntime>(images: &CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(permute(images.clone(), &[0, 2, 3, 1]))
}

/// A weight with its filters last in memory, as `[height, width, channels, filters]`.
pub(super) fn weight_filters_last<R: CubeRuntime>(weight: &CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(permute(weight.clone(), &[2, 3, 1, 0]))
}
