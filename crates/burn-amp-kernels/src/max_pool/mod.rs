//! Max pooling, of which a graph keeps the places of the largest elements.
//!
//! Burn's `Autodiff` keeps the operand too, though the backward pass needs no more than its shape. This takes the bytes of the
//! operand, which is larger than the result by the area of the window. Where a backend has I64 indices, they are kept in I32.

use burn_backend::{
    IntDType,
    ops::{MaxPool1dWithIndices, MaxPool2dWithIndices},
};

use crate::{
    made,
    names::{max_pool1d_with_indices, max_pool2d_with_indices},
    prelude::*,
};

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
    B::run(MaxPool(window), [x].into()).one()
}

/// Computes Burn's `max_pool2d` of a tensor `[batch, channels, height, width]`.
pub fn max_pool2d<B: AmpBackend>(x: FloatTensor<B>, window: Window<2>) -> FloatTensor<B> {
    B::run(MaxPool(window), [x].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct MaxPool<const D: usize>(Window<D>);

/// What Burn calls differently in one and two dimensions.
trait Pool: Kernel + Copy {
    fn values<B: AmpBackend>(self, x: FloatTensor<B>) -> FloatTensor<B>;

    fn with_indices<B: AmpBackend>(self, x: FloatTensor<B>) -> (FloatTensor<B>, IntTensor<B>);

    /// The gradient of `x`, of which only the shape and the dtype are read.
    fn gradient<B: AmpBackend>(
        self,
        x: FloatTensor<B>,
        grad: FloatTensor<B>,
        indices: IntTensor<B>,
    ) -> FloatTensor<B>;

    /// The node keeps the indices.
    fn node<B: AmpBackend, C: CheckpointStrategy>(self, x: Tracked<B, C>) -> Tracked<B, C> {
        if !x.is_tracked() {
            let output = self.values::<B>(x.primitive.clone());
            return untracked::<B, C>(&x, output);
        }
        let (output, indices) = self.with_indices::<B>(x.primitive.clone());
        let node = Recording::<B, C, _, 1>::new([&x], |_| false);
        node.finish(output, |_| {
            let dtype = IntDType::from(indices.dtype());
            let kept = match dtype {
                IntDType::I64 => B::int_cast(indices, IntDType::I32),
                _ => indices,
            };
            made::int::<B>(&kept);
            MaxPoolSaved {
                pool: self,
                indices: kept,
                dtype,
                x: (x.primitive.shape(), x.primitive.dtype()),
            }
        })
    }
}

impl Pool for MaxPool<1> {
    fn values<B: AmpBackend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        let Window {
            kernel_size: [k],
            stride: [s],
            padding: [p],
            dilation: [d],
            ceil_mode,
        } = self.0;
        B::max_pool1d(x, k, s, p, d, ceil_mode)
    }

    fn with_indices<B: AmpBackend>(self, x: FloatTensor<B>) -> (FloatTensor<B>, IntTensor<B>) {
        let Window {
            kernel_size: [k],
            stride: [s],
            padding: [p],
            dilation: [d],
            ceil_mode,
        } = self.0;
        let MaxPool1dWithIndices { output, indices } =
            max_pool1d_with_indices::<B>(x, k, s, p, d, ceil_mode);
        (output, indices)
    }

    fn gradient<B: AmpBackend>(
        self,
        x: FloatTensor<B>,
        grad: FloatTensor<B>,
        indices: IntTensor<B>,
    ) -> FloatTensor<B> {
        let Window {
            kernel_size: [k],
            stride: [s],
            padding: [p],
            dilation: [d],
            ceil_mode,
        } = self.0;
        B::max_pool1d_with_indices_backward(x, k, s, p, d, ceil_mode, grad, indices).x_grad
    }
}

impl Pool for MaxPool<2> {
    fn values<B: AmpBackend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.0;
        B::max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode)
    }

    fn with_indices<B: AmpBackend>(self, x: FloatTensor<B>) -> (FloatTensor<B>, IntTensor<B>) {
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.0;
        let MaxPool2dWithIndices { output, indices } =
            max_pool2d_with_indices::<B>(x, kernel_size, stride, padding, dilation, ceil_mode);
        (output, indices)
    }

    fn gradient<B: AmpBackend>(
        self,
        x: FloatTensor<B>,
        grad: FloatTensor<B>,
        indices: IntTensor<B>,
    ) -> FloatTensor<B> {
        let Window {
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        } = self.0;
        B::max_pool2d_with_indices_backward(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            grad,
            indices,
        )
        .x_grad
    }
}

impl<const D: usize> Kernel for MaxPool<D>
where
    MaxPool<D>: Pool,
{
    const NAME: &'static str = "burn_amp::max_pool";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        [self.values::<B>(operands.one())].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        [self.node::<B, C>(operands.one())].into()
    }
}

#[derive(Clone, Debug)]
struct MaxPoolSaved<B: Backend, P> {
    pool: P,
    indices: IntTensor<B>,
    /// The dtype of the backend's indices.
    dtype: IntDType,
    /// The shape and the dtype of the operand.
    x: Meta,
}

impl<B: AmpBackend, P: Pool> Node<B> for MaxPoolSaved<B, P> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        if pass.parent(0).is_none() {
            return;
        }
        let (shape, dtype) = self.x;
        let x = B::float_empty(shape, &device_of::<B>(&grad), dtype.into());
        let indices = match self.dtype {
            IntDType::I64 => B::int_cast(self.indices, self.dtype),
            _ => self.indices,
        };
        let gradient = self.pool.gradient::<B>(x, cast::<B>(grad, dtype), indices);
        pass.register(0, seen::<B>(gradient));
    }
}
