//! Images as the sums of the windows that cover each place: the gradient of the images of a strided convolution, and the output of a
//! transposed one.
//!
//! A product of the operand, which has one place for each window, and the weight has the windows as its rows. A kernel adds them up in F32,
//! each place of the images for itself, and writes the channels last, as convolutions read them. Burn's way copies the operand and
//! the weight into another order and adds in the dtype of both. Where windows lie apart, one of its two kernels computes zeros
//! (burn-cubecl 0.21.0), and a measurement chooses between them.

#[cfg(feature = "cubecl")]
use burn_backend::ops::ConvOptions;

use super::Direction;
#[cfg(feature = "cubecl")]
use super::{add_windows::add_windows, transposed};
use crate::prelude::*;

/// Takes the gradient of a convolution or the operand of a transposed one, a weight, and perhaps a bias.
#[derive(Clone, Debug)]
pub(super) struct FromWindows {
    pub direction: Direction,
    /// The height and width of the images.
    pub sizes: [usize; 2],
    #[cfg_attr(not(feature = "cubecl"), allow(dead_code, reason = "for the kernel"))]
    pub window_bytes: usize,
}

impl FromWindows {
    fn shape(&self, x: &Shape, weight: &Shape) -> Shape {
        let groups = match &self.direction {
            Direction::Plain(options) => options.groups,
            Direction::Transposed(options) => options.groups,
        };
        let [height, width] = self.sizes;
        Shape::new([x[0], weight[1] * groups, height, width])
    }
}

impl Kernel for FromWindows {
    const NAME: &'static str = "burn_amp::images_from_windows";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let ([(x, dtype), (weight, _)], _) = operands.clone().and_maybe();
        [(self.shape(&x, &weight), dtype)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, weight], bias) = operands.and_maybe();
        let shape = self.shape(&x.shape(), &weight.shape());
        [match self.direction.clone() {
            Direction::Transposed(options) => B::conv_transpose2d(x, weight, bias, options),
            Direction::Plain(options) => {
                let images = B::float_empty(shape, &device_of::<B>(&x), x.dtype().into());
                B::conv2d_x_backward(images, weight, x, options)
            }
        }]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let ([x, weight], bias) = operands.clone().and_maybe();
        let options = match &self.direction {
            Direction::Plain(options) => options.clone(),
            Direction::Transposed(options) => transposed::convolution_of(options),
        };
        let elements = operands
            .floats
            .iter()
            .map(|operand| operand.shape().num_elements());
        // In F32, products may be in TF32: Burn's kernels are exact, but for windows that lie apart.
        let is_known = match x.dtype {
            DType::F16 | DType::BF16 => x.dtype == weight.dtype,
            DType::F32 => weight.dtype == DType::F32 && lie_apart(&weight.shape(), &options),
            _ => false,
        };
        if !is_known || options.groups != 1 || elements.min() == Some(0) {
            return Err(operands);
        }
        let images = add_windows(
            &x,
            &weight,
            bias.as_ref(),
            self.sizes,
            &options,
            self.window_bytes,
        );
        Ok([images.ok_or(operands)?].into())
    }
}

/// Whether there are places between the windows along a dimension.
#[cfg(feature = "cubecl")]
fn lie_apart(weight: &Shape, options: &ConvOptions<2>) -> bool {
    let extent = |dim: usize| options.dilation[dim] * (weight[2 + dim] - 1) + 1;
    (0..2).any(|dim| options.stride[dim] > extent(dim))
}
