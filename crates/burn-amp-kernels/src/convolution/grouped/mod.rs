//! Convolutions in groups, whose kernels add the products themselves, in F32.
//!
//! A group has so few filters and channels, one of each in a depthwise convolution, that a product of matrices would leave most
//! of its tiles empty. Burn 0.21 computes the output with sums in the dtype of its operands, writes the images once for each
//! element of the window to get their gradient, and launches several kernels for each group to get that of the weight.

#[cfg(feature = "cubecl")]
mod groups;
#[cfg(feature = "cubecl")]
mod input_gradient;
#[cfg(feature = "cubecl")]
mod output;
#[cfg(feature = "cubecl")]
mod weight_gradient;

use burn_backend::ops::ConvOptions;

#[cfg(feature = "cubecl")]
pub(super) use weight_gradient::weight_gradient;

use super::output_sizes;
use crate::prelude::*;

/// Whether the kernels compute with these operands: all of one dtype, and with elements. Others are left to Burn.
#[cfg(feature = "cubecl")]
pub(super) fn have_kernel<R: CubeRuntime>(operands: &CubeTensors<R>) -> bool {
    let dtype = operands.floats[0].dtype;
    let mut operands = operands.floats.iter();
    operands.all(|operand| operand.dtype == dtype && operand.shape().num_elements() > 0)
}

/// The output, from images, a weight and perhaps a bias.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub options: ConvOptions<2>,
}

impl Kernel for Output {
    const NAME: &'static str = "burn_amp::grouped_convolution";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let ([(x, dtype), (weight, _)], _) = operands.clone().and_maybe();
        let [rows, columns] = output_sizes(&x, &weight, &self.options);
        [(Shape::new([x[0], weight[0], rows, columns]), dtype)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, weight], bias) = operands.and_maybe();
        [B::conv2d(x, weight, bias, self.options.clone())].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if !have_kernel(&operands) {
            return Err(operands);
        }
        let ([x, weight], bias) = operands.and_maybe();
        Ok([output::output(&x, &weight, bias.as_ref(), &self.options)].into())
    }
}

/// The gradient of the images, of which only the shape is read, from the weight and the gradient of the output.
#[derive(Clone, Debug)]
pub(super) struct InputGradient {
    pub options: ConvOptions<2>,
}

impl Kernel for InputGradient {
    const NAME: &'static str = "burn_amp::grouped_convolution_input_gradient";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [(x, _), _, (_, dtype)] = operands.clone().exactly();
        [(x, dtype)].into()
    }

    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let [_, weight, grad] = operands.exactly();
        [weight, grad].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, weight, grad] = operands.exactly();
        let options = self.options.clone();
        [B::conv2d_x_backward(x, weight, grad, options)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if !have_kernel(&operands) {
            return Err(operands);
        }
        let [x, weight, grad] = operands.exactly();
        let gradient = input_gradient::input_gradient(&x.shape(), &weight, &grad, &self.options);
        Ok([gradient].into())
    }
}
