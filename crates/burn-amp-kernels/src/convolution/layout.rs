//! The layouts in which convolutions read images and weights.

#[cfg(feature = "cubecl")]
use burn_cubecl::{kernel::into_contiguous, ops::permute, tensor::CubeTensor};

use crate::prelude::*;

/// Returns the same values, with the channels last in memory where the backend's convolutions read them so. Worth it for a weight that is read
/// several times, `[filters, channels, height, width]`.
pub fn weight_as_read<B: AmpBackend>(weight: FloatTensor<B>) -> FloatTensor<B> {
    let [_, channels, height, width] = weight.shape().dims();
    if channels == 1 || height * width == 1 {
        return weight;
    }
    B::run(AsRead, [weight].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct AsRead;

impl Kernel for AsRead {
    const NAME: &'static str = "burn_amp::weight_as_read";
    // Elsewhere nothing is copied.
    const IS_COMPOSED: bool = true;
    const IS_FUSED: bool = false;
    const READS_F64: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        operands
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let weight = channels_last(&operands.one());
        Ok([permute(weight, &[0, 3, 1, 2])].into())
    }
}

/// Images with their channels last in memory, as `[batch, height, width, channels]`.
#[cfg(feature = "cubecl")]
pub(super) fn channels_last<R: CubeRuntime>(images: &CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(permute(images.clone(), &[0, 2, 3, 1]))
}

/// A weight with its filters last in memory, as `[height, width, channels, filters]`.
#[cfg(feature = "cubecl")]
pub(super) fn weight_filters_last<R: CubeRuntime>(weight: &CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(permute(weight.clone(), &[2, 3, 1, 0]))
}
