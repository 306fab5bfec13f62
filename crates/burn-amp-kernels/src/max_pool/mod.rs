//! Max pooling, of which a graph keeps the places of the largest elements.
//!
//! Burn's `Autodiff` keeps the operand too, though the backward pass needs no more than its shape. This takes the bytes of the
//! operand, which is larger than the result by the area of the window. Where a backend has I64 indices, they are kept in I32.

use burn_backend::{IntDType, ops::FloatTensorOps};

use crate::{made, names::max_pool2d_with_indices, prelude::*};

/// A window that moves over the last one or two dimensions, with the options of Burn's ops.
#[derive(Clone, Copy, Debug)]
pub struct Window<const D: usize> {
    /// The elements of a window.
    pub kernel_size: [usize; D],
    /// From one window to the next.
    pub stride: [usize; D],
    /// What is added at each border.
    pub padding: [usize; D],
    /// The distance of neighbours in a window.
    pub dilation: [usize; D],
    /// Whether a window that reaches beyond the border counts.
    pub ceil_mode: bool,
}

/// Computes Burn's `max_pool1d` of a tensor `[batch, channels, length]`.
pub fn max_pool1d<B: AmpBackend>(x: FloatTensor<B>, window: Window<1>) -> FloatTensor<B> {
    B::run(MaxPool1d(window), [x].into()).one()
}

/// Computes Burn's `max_pool2d` of a tensor `[batch, channels, height, width]`.
pub fn max_pool2d<B: AmpBackend>(x: FloatTensor<B>, window: Window<2>) -> FloatTensor<B> {
    B::run(MaxPool2d(window), [x].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct MaxPool1d(Window<1>);

impl Kernel for MaxPool1d {
    const NAME: &'static str = "burn_amp::max_pool1d";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let Window {
            kernel_size: [kernel_size],
            stride: [stride],
            padding: [padding],
            dilation: [dilation],
            ceil_mode,
        } = self.0;
        let x = operands.one();
        [B::max_pool1d(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        )]
        .into()
    }

    /// As that of images of height 1.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let Window {
            kernel_size: [kernel_size],
            stride: [stride],
            padding: [padding],
            dilation: [dilation],
            ceil_mode,
        } = self.0;
        let window = Window {
            kernel_size: [1, kernel_size],
            stride: [1, stride],
            padding: [0, padding],
            dilation: [1, dilation],
            ceil_mode,
        };
        let x = operands.one();
        let [batch, channels, length] = x.shape().dims();
        let images = Shape::new([batch, channels, 1, length]);
        let images = Autodiff::<B, C>::float_reshape(x, images);
        let output = max_pool2d::<Autodiff<B, C>>(images, window);
        let [_, _, _, length] = output.shape().dims();
        let lines = Shape::new([batch, channels, length]);
        [Autodiff::<B, C>::float_reshape(output, lines)].into()
    }
}

#[derive(Clone, Copy, Debug)]
struct MaxPool2d(Window<2>);

impl Kernel for MaxPool2d {
    const NAME: &'static str = "burn_amp::max_pool2d";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.0;
        let x = operands.one();
        [B::max_pool2d(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        )]
        .into()
    }

    /// The node keeps the indices.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        if !x.is_tracked() {
            let output = max_pool2d::<B>(x.primitive.clone(), self.0);
            return [untracked::<B, C>(output)].into();
        }
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.0;
        let pooled = max_pool2d_with_indices::<B>(
            x.primitive.clone(),
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        );
        let dtype = IntDType::from(pooled.indices.dtype());
        let indices = match dtype {
            IntDType::I64 => B::int_cast(pooled.indices, IntDType::I32),
            _ => pooled.indices,
        };
        made::int::<B>(&indices);
        let saved = MaxPoolSaved {
            window: self.0,
            indices,
            dtype,
            x: (x.primitive.shape(), x.primitive.dtype()),
        };
        let node = Recording::<B, C, _, 1>::new([&x], |_| false);
        [node.finish(pooled.output, |_| saved)].into()
    }
}

#[derive(Clone, Debug)]
struct MaxPoolSaved<B: Backend> {
    window: Window<2>,
    indices: IntTensor<B>,
    /// The dtype of the backend's indices.
    dtype: IntDType,
    /// The shape and the dtype of the operand.
    x: Meta,
}

impl<B: AmpBackend> Node<B> for MaxPoolSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.window;
        let (shape, dtype) = self.x;
        let indices = match self.dtype {
            IntDType::I64 => B::int_cast(self.indices, self.dtype),
            _ => self.indices,
        };
        // Only the shape and the dtype of the operand are read.
        let x = B::float_empty(shape, &device_of::<B>(&grad), dtype.into());
        let gradient = B::max_pool2d_with_indices_backward(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            cast::<B>(grad, dtype),
            indices,
        );
        pass.register(0, seen::<B>(gradient.x_grad));
    }
}
