//! The gradient of the bias of a convolution: sums over all places, which Burn's reduction adds after a copy of images whose
//! channels are last.

#[cfg(feature = "cubecl")]
use burn_backend::TensorMetadata;
#[cfg(feature = "cubecl")]
use burn_cubecl::ops::reshape;

#[cfg(feature = "cubecl")]
use crate::affine::sums_by_channel;
use crate::prelude::*;

/// Computes the gradient of the bias from that of the output, in F32. Of `x` and the bias only the shapes are read.
pub(super) fn bias_gradient<B: AmpBackend>(
    x: FloatTensor<B>,
    bias: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    B::run(BiasGradient, [x, bias, grad].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct BiasGradient;

impl Kernel for BiasGradient {
    const NAME: &'static str = "burn_amp::convolution_bias_gradient";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [_, (shape, _), (_, dtype)] = operands.clone().exactly();
        [(shape, wide_dtype(dtype))].into()
    }

    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let [_, _, grad] = operands.exactly();
        [grad].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, bias, grad] = operands.exactly();
        [widen::<B>(B::conv2d_bias_backward(x, bias, grad))].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let grad = &operands.floats[2];
        match sums_by_channel(grad) {
            Some(sums) => {
                let sums = reshape(sums, Shape::new([grad.shape()[1]]));
                Ok([sums].into())
            }
            None => Err(operands),
        }
    }
}
