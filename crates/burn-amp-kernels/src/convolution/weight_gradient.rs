//! The gradient of the weight of a convolution, as an op.

use burn_backend::ops::ConvOptions;

#[cfg(feature = "cubecl")]
use super::{grouped, split};
use crate::prelude::*;

/// The most bytes of windows at a time, 256 MiB, unless those of one part take more.
pub const WINDOW_BYTES: usize = 1 << 28;

/// Computes the gradient of the weight from that of the output, in F32. Of the weight only the shape is read.
pub fn weight_gradient<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvOptions<2>,
) -> FloatTensor<B> {
    weight_gradient_within::<B>(x, weight, grad, options, WINDOW_BYTES)
}

/// The same with so many bytes of windows at a time.
#[doc(hidden)]
pub fn weight_gradient_within<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvOptions<2>,
    window_bytes: usize,
) -> FloatTensor<B> {
    let gradient = WeightGradient {
        options,
        window_bytes,
    };
    B::run(gradient, [x, weight, grad].into()).one()
}

#[derive(Clone, Debug)]
pub(super) struct WeightGradient {
    pub options: ConvOptions<2>,
    #[cfg_attr(not(feature = "cubecl"), allow(dead_code, reason = "for the kernel"))]
    pub window_bytes: usize,
}

impl Kernel for WeightGradient {
    const NAME: &'static str = "burn_amp::convolution_weight_gradient";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [_, (shape, _), (_, dtype)] = operands.clone().exactly();
        [(shape, wide_dtype(dtype))].into()
    }

    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let [x, _, grad] = operands.exactly();
        [x, grad].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, weight, grad] = operands.exactly();
        let options = self.options.clone();
        [widen::<B>(B::conv2d_weight_backward(
            x, weight, grad, options,
        ))]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let gradient = {
            let [x, weight, grad] = &operands.floats[..] else {
                unreachable!("the op has three operands");
            };
            match self.options.groups {
                1 => split::weight_gradient(x, &weight.shape(), grad, self),
                _ if !grouped::have_kernel(&operands) => None,
                _ => grouped::weight_gradient(x, &weight.shape(), grad, &self.options),
            }
        };
        match gradient {
            Some(gradient) => Ok([gradient].into()),
            None => Err(operands),
        }
    }
}
