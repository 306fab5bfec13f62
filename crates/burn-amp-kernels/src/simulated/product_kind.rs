//! The products that have weights, and those of their backward passes, in Burn's ops.

use burn_amp_core::Op;
use burn_backend::ops::{ConvOptions, conv::calculate_conv_output_sizes};

use crate::prelude::*;

/// A product of activations with weights.
#[derive(Clone, Debug)]
pub enum ProductKind {
    /// Of matrices `[rows, inputs]` and `[inputs, outputs]`.
    Linear,
    /// Of sequences `[batch, channels, length]` and `[filters, channels, length]`.
    Conv1d(ConvOptions<1>),
    /// The same of images.
    Conv2d(ConvOptions<2>),
    /// The same of volumes.
    Conv3d(ConvOptions<3>),
}

/// Calls Burn's method of a convolution.
macro_rules! convolution {
    ($product:expr, $linear:expr, $one:ident $two:ident $three:ident ($($operand:expr),*)) => {
        match $product {
            Self::Linear => $linear,
            Self::Conv1d(options) => B::$one($($operand,)* options.clone()),
            Self::Conv2d(options) => B::$two($($operand,)* options.clone()),
            Self::Conv3d(options) => B::$three($($operand,)* options.clone()),
        }
    };
}

impl ProductKind {
    /// The op of the table.
    pub fn op(&self) -> Op {
        match self {
            Self::Linear => Op::linear,
            Self::Conv1d(_) => Op::conv1d,
            Self::Conv2d(_) => Op::conv2d,
            Self::Conv3d(_) => Op::conv3d,
        }
    }

    /// The shape of the result.
    pub(super) fn result(&self, x: &Shape, weight: &Shape) -> Shape {
        fn sizes<const N: usize>(options: &ConvOptions<N>, x: &Shape, weight: &Shape) -> Shape {
            let ConvOptions {
                stride,
                padding,
                dilation,
                ..
            } = options;
            let sizes =
                calculate_conv_output_sizes(&weight[2..], stride, padding, dilation, &x[2..]);
            let shape: Vec<_> = [x[0], weight[0]].into_iter().chain(sizes).collect();
            Shape::from(shape)
        }
        match self {
            Self::Linear => Shape::new([x[0], weight[1]]),
            Self::Conv1d(options) => sizes(options, x, weight),
            Self::Conv2d(options) => sizes(options, x, weight),
            Self::Conv3d(options) => sizes(options, x, weight),
        }
    }

    /// Computes the product, plus a bias.
    pub(super) fn forward<B: AmpBackend>(
        &self,
        x: FloatTensor<B>,
        weight: FloatTensor<B>,
        bias: Option<FloatTensor<B>>,
    ) -> FloatTensor<B> {
        convolution!(self, B::linear(x, weight, bias), conv1d conv2d conv3d (x, weight, bias))
    }

    /// Computes the gradient of the activations, of which only the shape is read.
    pub(super) fn input_gradient<B: AmpBackend>(
        &self,
        x: FloatTensor<B>,
        weight: FloatTensor<B>,
        grad: FloatTensor<B>,
    ) -> FloatTensor<B> {
        convolution!(
            self,
            B::linear_x_backward(weight, grad),
            conv1d_x_backward conv2d_x_backward conv3d_x_backward (x, weight, grad)
        )
    }

    /// Computes the gradient of the weights, of which only the shape is read.
    pub(super) fn weight_gradient<B: AmpBackend>(
        &self,
        x: FloatTensor<B>,
        weight: FloatTensor<B>,
        grad: FloatTensor<B>,
    ) -> FloatTensor<B> {
        convolution!(
            self,
            B::linear_weight_backward(x, grad),
            conv1d_weight_backward conv2d_weight_backward conv3d_weight_backward (x, weight, grad)
        )
    }

    /// Computes the gradient of the bias, of which only the shape is read, as that of the activations.
    pub(super) fn bias_gradient<B: AmpBackend>(
        &self,
        x: FloatTensor<B>,
        bias: FloatTensor<B>,
        grad: FloatTensor<B>,
    ) -> FloatTensor<B> {
        match self {
            Self::Linear => B::linear_bias_backward(grad),
            Self::Conv1d(_) => B::conv1d_bias_backward(x, bias, grad),
            Self::Conv2d(_) => B::conv2d_bias_backward(x, bias, grad),
            Self::Conv3d(_) => B::conv3d_bias_backward(x, bias, grad),
        }
    }
}
