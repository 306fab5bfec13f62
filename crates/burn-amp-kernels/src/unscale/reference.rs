use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::{finite, row};

/// In Burn's ops: casts, products, and the [reference](finite::reference) of the flags.
///
/// # Panics
///
/// Without tensors: flags live on the device of the first.
pub fn reference<B: Backend>(tensors: Vec<FloatTensor<B>>, factor: f32) -> Vec<FloatTensor<B>> {
    let flags = finite::reference::<B>(tensors.clone());
    tensors
        .into_iter()
        .map(|tensor| match tensor.shape().num_elements() {
            // burn-cubecl counts below 0 on empty operands.
            0 => row::nothing_like::<B>(&tensor),
            _ => B::float_mul_scalar(row::widened::<B>(tensor), factor.into()),
        })
        .chain([flags])
        .collect()
}
