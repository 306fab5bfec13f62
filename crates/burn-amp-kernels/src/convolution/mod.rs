//! Convolutions in two dimensions, whose weight gradient is split among the cubes of a device.
//!
//! The gradient of a weight of `O` filters over `C` channels and a window of `H × W` is a product: `O × rows` by
//! `rows × C H W`, where each row is a place of the output in one of the images. In the first layers of a net there are
//! hundreds of thousands of rows and a few thousand results, so a kernel that gives each cube a tile of the results, as
//! CubeCL's convolutions do, keeps a handful of a device's multiprocessors busy. [`weight_gradient`] splits the rows instead:
//! each part is a product of its own, in F32, and the sums of all parts are rounded once.
//!
//! A window of one element reads the rows of the input where they lie. For a larger one a kernel writes the windows as rows,
//! `H W` times the bytes of the input, for so many images at a time that they take at most [`WINDOW_BYTES`]. On other
//! backends, and for gradients with enough tiles, it is Burn's.

#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod windows;

use burn_backend::ops::ConvOptions;

use crate::{graph::values, prelude::*};

/// The most bytes of windows at a time, 256 MiB, unless those of one part take more.
pub const WINDOW_BYTES: usize = 1 << 28;

/// Computes a convolution of images `[batch, channels, height, width]` with a weight `[filters, channels, height, width]`. On
/// Burn's `Autodiff` it is one node.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvOptions<2>,
) -> FloatTensor<B> {
    B::run(Convolution { options }, ([x, weight], bias).into()).one()
}

/// Computes the gradient of the weight from that of the output, in its dtype. Of the weight only the shape is read.
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
struct Convolution {
    options: ConvOptions<2>,
}

impl Kernel for Convolution {
    const NAME: &'static str = "burn_amp::convolution";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, weight], bias) = operands.and_maybe();
        [B::conv2d(x, weight, bias, self.options.clone())].into()
    }

    /// The node keeps all operands, as Burn's does.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let operands = operands.floats;
        let output = B::run(self.clone(), values::<B, C>(&operands).into()).one();
        [by_length!(operands, 2 3; N => {
            let operands = std::array::from_fn(|at| &operands[at]);
            Recording::<B, C, _, N>::new(operands, |_| true).finish(output, |_| self)
        })]
        .into()
    }
}

impl<B: AmpBackend> Node<B> for Convolution {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = seen::<B>(pass.gradient());
        let options = || self.options.clone();
        let operands: [_; 3] = std::array::from_fn(|at| match at < N {
            true => pass.operand(at),
            false => None,
        });
        let [Some(x), Some(weight), bias] = operands else {
            unreachable!("the node keeps all operands");
        };
        if pass.parent(0).is_some() {
            let (x, weight, grad) = (x.clone(), weight.clone(), grad.clone());
            pass.register(0, B::conv2d_x_backward(x, weight, grad, options()));
        }
        if pass.parent(1).is_some() {
            let (x, grad) = (x.clone(), grad.clone());
            pass.register(1, weight_gradient::<B>(x, weight, grad, options()));
        }
        if let Some(bias) = bias.filter(|_| pass.parent(2).is_some()) {
            pass.register(2, B::conv2d_bias_backward(x, bias, grad));
        }
    }
}

#[derive(Clone, Debug)]
struct WeightGradient {
    options: ConvOptions<2>,
    #[cfg_attr(not(feature = "cubecl"), allow(dead_code, reason = "for the kernel"))]
    window_bytes: usize,
}

impl Kernel for WeightGradient {
    const NAME: &'static str = "burn_amp::convolution_weight_gradient";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [_, (shape, _), (_, dtype)] = operands.clone().exactly();
        [(shape, dtype)].into()
    }

    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let [x, _, grad] = operands.exactly();
        [x, grad].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, weight, grad] = operands.exactly();
        [B::conv2d_weight_backward(
            x,
            weight,
            grad,
            self.options.clone(),
        )]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let gradient = {
            let [x, weight, grad] = &operands.floats[..] else {
                unreachable!("the op has three operands");
            };
            kernel::weight_gradient(x, &weight.shape(), grad, self)
        };
        match gradient {
            Some(gradient) => Ok([gradient].into()),
            None => Err(operands),
        }
    }
}
