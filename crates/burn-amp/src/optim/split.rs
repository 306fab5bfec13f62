//! [`offset`] for Burn's tensors.

use burn::tensor::{Int, Tensor, TensorPrimitive, backend::Backend};
use burn_amp_kernels::optimizer::offset;

/// Splits an F32 master into the nearest BF16 parameter and the I16 offset.
pub(super) fn split<B: Backend, const D: usize>(
    master: Tensor<B, D>,
) -> (Tensor<B, D>, Tensor<B, D, Int>) {
    let (parameter, offset) = offset::split::<B>(master.into_primitive().tensor());
    (
        Tensor::from_primitive(TensorPrimitive::Float(parameter)),
        Tensor::from_primitive(offset),
    )
}

/// Joins a BF16 parameter and its I16 offset to the F32 master.
pub(super) fn join<B: Backend, const D: usize>(
    parameter: Tensor<B, D>,
    offset: Tensor<B, D, Int>,
) -> Tensor<B, D> {
    let master = offset::join::<B>(parameter.into_primitive().tensor(), offset.into_primitive());
    Tensor::from_primitive(TensorPrimitive::Float(master))
}
