//! Convolutions in two dimensions, whose weight gradient is split among the cubes of a device.
//!
//! The gradient of a weight of `O` filters over `C` channels and a window of `H × W` is a product: `O × rows` by
//! `rows × C H W`, where each row is a place of the output in one of the images. In the first layers of a net there are
//! hundreds of thousands of rows and a few thousand results, so a kernel that gives each cube a tile of the results, as
//! CubeCL's convolutions do, keeps a handful of a device's multiprocessors busy. [`weight_gradient()`] splits the rows instead:
//! each part is a product of its own, in F32, and the sums of all parts go to an F32 weight as they are, to another one rounded once.
//!
//! A window of one element reads the rows of the input where they lie. For a larger one a kernel writes the windows as rows. If
//! the convolution moves from line to line, those of one line are enough, `W` times the bytes of the input: the lines of a
//! window are `H` products over the same rows, which begin a line later each. Otherwise it is `H W` times the bytes. Windows
//! are written for so many images at a time that they take at most [`WINDOW_BYTES`]. With up to 64 filters or channels they are not
//! written, if the device has matrix units (`implicit`). On other backends it is Burn's.
//!
//! The weight gradient of a transposed convolution is that of the convolution whose gradient it computes: the images are the
//! gradient of its output there, and its operand takes the place of that gradient.
//!
//! The gradient of the images of a strided convolution is the sum of windows (`from_windows`), and so is the output of a transposed
//! one. A convolution in groups is computed by kernels of its own, forward and backward (`grouped`). A convolution in one dimension
//! is one of images with a height of one place.

#[cfg(feature = "cubecl")]
mod add_windows;
#[cfg(feature = "cubecl")]
mod along;
mod bias_gradient;
mod from_windows;
mod grouped;
#[cfg(feature = "cubecl")]
mod implicit;
mod layout;
#[cfg(feature = "cubecl")]
mod split;
mod transposed;
mod weight_gradient;
#[cfg(feature = "cubecl")]
mod windows;

pub use layout::weight_as_read;
pub use transposed::{forward as transposed, forward_1d as transposed_1d};
pub use weight_gradient::{WINDOW_BYTES, weight_gradient, weight_gradient_within};

use burn_backend::ops::{ConvOptions, ConvTransposeOptions, conv::calculate_conv_output_sizes};

use self::{bias_gradient::bias_gradient, from_windows::FromWindows};
use crate::prelude::*;

/// Computes a convolution of images `[batch, channels, height, width]` with a weight `[filters, channels, height, width]`. On
/// Burn's `Autodiff` it is one node.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvOptions<2>,
    in_f32: InF32,
) -> FloatTensor<B> {
    let direction = Direction::Plain(options);
    let convolution = Convolution { direction, in_f32 };
    B::run(convolution, ([x, weight], bias).into()).one()
}

/// Computes a convolution of sequences `[batch, channels, length]` with a weight `[filters, channels, length]`.
pub fn forward_1d<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    options: ConvOptions<1>,
    in_f32: InF32,
) -> FloatTensor<B> {
    let (stride, dilation) = (options.stride[0], options.dilation[0]);
    let mut of_images = ConvOptions::new([1, stride], [0, 0], [1, dilation], options.groups);
    of_images.padding[1] = options.padding[0];
    let [x, weight] = [x, weight].map(as_images::<B>);
    as_sequences::<B>(forward::<B>(x, weight, bias, of_images, in_f32))
}

/// Sequences, or a weight for sequences, as images with a height of one place.
fn as_images<B: AmpBackend>(sequences: FloatTensor<B>) -> FloatTensor<B> {
    let [batch, channels, length] = sequences.shape().dims();
    B::float_reshape(sequences, Shape::new([batch, channels, 1, length]))
}

/// Images with a height of one place as sequences.
fn as_sequences<B: AmpBackend>(images: FloatTensor<B>) -> FloatTensor<B> {
    let [batch, channels, _, length] = images.shape().dims();
    B::float_reshape(images, Shape::new([batch, channels, length]))
}

/// Computes the gradient of the images of a convolution, in the dtype of that of the output. Of the images only the shape is
/// read.
pub fn input_gradient<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvOptions<2>,
) -> FloatTensor<B> {
    input_gradient_within::<B>(x, weight, grad, options, WINDOW_BYTES)
}

/// The same with so many bytes of windows at a time.
#[doc(hidden)]
pub fn input_gradient_within<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: ConvOptions<2>,
    window_bytes: usize,
) -> FloatTensor<B> {
    if options.groups > 1 {
        let gradient = grouped::InputGradient { options };
        return B::run(gradient, [x, weight, grad].into()).one();
    }
    if options.stride.iter().any(|stride| *stride > 1) {
        let [_, _, height, width] = x.shape().dims();
        let gradient = FromWindows {
            direction: Direction::Plain(options),
            sizes: [height, width],
            window_bytes,
        };
        return B::run(gradient, [grad, weight].into()).one();
    }
    B::conv2d_x_backward(x, weight, grad, options)
}

/// The height and width of the output of a convolution of images.
fn output_sizes(images: &Shape, weight: &Shape, options: &ConvOptions<2>) -> [usize; 2] {
    let sizes = calculate_conv_output_sizes(
        &weight[2..],
        &options.stride,
        &options.padding,
        &options.dilation,
        &images[2..],
    );
    [sizes[0], sizes[1]]
}

/// Which gradients a convolution computes in F32, because their tensors were cast from F32 for it. Others have the dtype of their
/// tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InF32 {
    /// That of the weight.
    pub weight: bool,
    /// That of the bias.
    pub bias: bool,
}

/// A convolution of images, or a transposed one.
#[derive(Clone, Debug)]
enum Direction {
    Plain(ConvOptions<2>),
    Transposed(ConvTransposeOptions<2>),
}

#[derive(Clone, Debug)]
struct Convolution {
    direction: Direction,
    in_f32: InF32,
}

impl Kernel for Convolution {
    const NAME: &'static str = "burn_amp::convolution";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        match &self.direction {
            Direction::Plain(options) if options.groups > 1 => {
                let options = options.clone();
                B::run(grouped::Output { options }, operands)
            }
            Direction::Plain(options) => {
                let ([x, weight], bias) = operands.and_maybe();
                [B::conv2d(x, weight, bias, options.clone())].into()
            }
            Direction::Transposed(options) => {
                let ([x, weight], bias) = operands.and_maybe();
                [transposed::output::<B>(x, weight, bias, options.clone())].into()
            }
        }
    }

    /// The node keeps all operands, as Burn's does.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        record_with_all::<B, C, _>(self, operands)
    }
}

impl<B: AmpBackend> Node<B> for Convolution {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = seen::<B>(pass.gradient());
        let ([x, weight], bias) = pass.all_operands();
        if pass.parent(0).is_some() {
            let (x, weight, grad) = (x.clone(), weight.clone(), grad.clone());
            let gradient = match self.direction.clone() {
                Direction::Plain(options) => input_gradient::<B>(x, weight, grad, options),
                Direction::Transposed(options) => {
                    let options = transposed::convolution_of(&options);
                    forward::<B>(grad, weight, None, options, InF32::default())
                }
            };
            pass.register(0, gradient);
        }
        if let Some(bias) = bias.filter(|_| pass.parent(2).is_some()) {
            let dtype = bias.dtype();
            let gradient = bias_gradient::<B>(x.clone(), bias, grad.clone());
            pass.register(2, as_wanted::<B>(gradient, self.in_f32.bias, dtype));
        }
        if pass.parent(1).is_some() {
            let dtype = weight.dtype();
            let gradient = match self.direction {
                Direction::Plain(options) => weight_gradient::<B>(x, weight, grad, options),
                Direction::Transposed(options) => {
                    let options = transposed::convolution_of(&options);
                    weight_gradient::<B>(grad, weight, x, options)
                }
            };
            pass.register(1, as_wanted::<B>(gradient, self.in_f32.weight, dtype));
        }
    }
}

/// A gradient in F32, rounded to the dtype of its tensor unless it is wanted as it is.
fn as_wanted<B: AmpBackend>(
    gradient: FloatTensor<B>,
    in_f32: bool,
    dtype: DType,
) -> FloatTensor<B> {
    match in_f32 {
        true => gradient,
        false => cast::<B>(gradient, dtype),
    }
}
