//! What the references of chains and sums are made of.

use super::Affine;
use crate::prelude::*;

impl<T: Clone> Affine<T> {
    /// The chain without its end, in the shape of the grid.
    pub(super) fn chain<B: Backend<FloatTensorPrimitive = T>>(&self, x: T) -> T {
        let y = self.rescaled::<B>(self.scaled::<B>(self.centered::<B>(x)));
        plus::<B>(y, self.after.clone())
    }

    /// `x + before`, in the shape of the grid.
    pub(super) fn centered<B: Backend<FloatTensorPrimitive = T>>(&self, x: T) -> T {
        let x = reshaped::<B>(widen::<B>(x), &self.grid);
        plus::<B>(x, self.before.clone())
    }

    /// `tensor · scale`, or `tensor / scale`; the tensor if there is no `scale`.
    pub(super) fn scaled<B: Backend<FloatTensorPrimitive = T>>(&self, tensor: T) -> T {
        match self.scale.clone() {
            Some(scale) if self.divides => B::float_div(tensor, scale),
            Some(scale) => B::float_mul(tensor, scale),
            None => tensor,
        }
    }

    /// `tensor · rescale`; the tensor if there is no `rescale`.
    pub(super) fn rescaled<B: Backend<FloatTensorPrimitive = T>>(&self, tensor: T) -> T {
        match self.rescale.clone() {
            Some(rescale) => B::float_mul(tensor, rescale),
            None => tensor,
        }
    }

    /// The gradient of the chain without its end, in the shape of the grid.
    pub(super) fn passed<B: Backend<FloatTensorPrimitive = T>>(&self, x: T, grad: T) -> T {
        let grad = reshaped::<B>(widen::<B>(grad), &self.grid);
        self.end.passed::<B>(|| self.chain::<B>(x), grad)
    }
}

/// Adds a tensor in any dtype, if there is one.
pub(super) fn plus<B: Backend>(
    x: FloatTensor<B>,
    summand: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    match summand {
        Some(summand) => B::float_add(x, widen::<B>(summand)),
        None => x,
    }
}

/// The number of elements of a tensor of shape `shape` that are added to one sum.
pub(super) fn terms(shape: &Shape, kept: &Shape) -> f64 {
    shape.num_elements() as f64 / kept.num_elements() as f64
}

/// Sums over the dimensions in which `kept` is 1.
pub(super) fn summed<B: Backend>(tensor: FloatTensor<B>, kept: &Shape) -> FloatTensor<B> {
    let sizes = kept.as_slice().iter().enumerate();
    sizes.fold(tensor, |tensor, (dim, size)| {
        if *size == 1 && tensor.shape()[dim] != 1 {
            sum_dim::<B>(tensor, dim)
        } else {
            tensor
        }
    })
}

pub(super) fn reshaped<B: Backend>(tensor: FloatTensor<B>, shape: &Shape) -> FloatTensor<B> {
    if tensor.shape() == *shape {
        tensor
    } else {
        B::float_reshape(tensor, shape.clone())
    }
}
