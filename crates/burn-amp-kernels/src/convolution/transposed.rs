//! Transposed convolutions, whose weight gradient is split among the cubes of a device as that of a convolution is.
//!
//! Burn computes this gradient as a convolution whose windows are as large as the images: a result of a few thousand numbers,
//! with as many terms each as there are places in the batch, which one or two cubes add up.
//!
//! The output of one whose windows lie apart is computed as the gradient of images that it is, since burn-cubecl 0.21.0 computes
//! zeros (`spaced`).

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};

use super::{Convolution, as_images, as_sequences, input_gradient, spaced};
#[cfg(feature = "cubecl")]
use super::{
    split,
    weight_gradient::{WINDOW_BYTES, WeightGradient},
};
use crate::prelude::*;

/// Computes a transposed convolution of images `[batch, channels, height, width]` with a weight
/// `[channels, filters, height, width]`. On Burn's `Autodiff` it is one node.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<2>,
) -> FloatTensor<B> {
    B::run(Convolution::Transposed(options), ([x, weight], bias).into()).one()
}

/// Computes a transposed convolution of sequences `[batch, channels, length]` with a weight `[channels, filters, length]`.
pub fn forward_1d<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<1>,
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
    as_sequences::<B>(forward::<B>(x, weight, bias, of_images))
}

/// Computes the output.
pub(super) fn output<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvTransposeOptions<2>,
) -> FloatTensor<B> {
    let convolution = convolution_of(&options);
    if !spaced::has_gaps(&weight.shape(), &convolution) {
        return B::conv_transpose2d(x, weight, bias, options);
    }
    let images = output_shape(&x.shape(), &weight.shape(), &options);
    let like = B::float_empty(images, &device_of::<B>(&x), x.dtype().into());
    let output = input_gradient::<B>(like, weight, x, convolution);
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
fn convolution_of(options: &ConvTransposeOptions<2>) -> ConvOptions<2> {
    ConvOptions::new(
        options.stride,
        options.padding,
        options.dilation,
        options.groups,
    )
}

/// Computes the gradient of the weight, of which only the shape is read, in the dtype of the gradient of the output.
pub(super) fn weight_gradient<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvTransposeOptions<2>,
) -> FloatTensor<B> {
    let gradient = TransposedWeightGradient { options };
    B::run(gradient, [x, weight, grad].into()).one()
}

/// Takes `x`, the weight, of which only the shape is read, and the gradient of the output.
#[derive(Clone, Debug)]
struct TransposedWeightGradient {
    options: ConvTransposeOptions<2>,
}

impl Kernel for TransposedWeightGradient {
    const NAME: &'static str = "burn_amp::transposed_convolution_weight_gradient";

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
        [B::conv_transpose2d_weight_backward(
            x,
            weight,
            grad,
            self.options.clone(),
        )]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if self.options.groups > 1 {
            return Err(operands);
        }
        let convolution = WeightGradient {
            options: convolution_of(&self.options),
            window_bytes: WINDOW_BYTES,
        };
        let gradient = {
            let [x, weight, grad] = &operands.floats[..] else {
                unreachable!("the op has three operands");
            };
            split::weight_gradient(grad, &weight.shape(), x, &convolution)
        };
        match gradient {
            Some(gradient) => Ok([gradient].into()),
            None => Err(operands),
        }
    }
}
