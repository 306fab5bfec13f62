use crate::{finite, prelude::*, widen::empty_wide_like};

/// Casts and multiplies with Burn's ops; flags with the [reference](finite::reference) of the finite check.
///
/// # Panics
///
/// Panics if there are no tensors: the flags are on the device of the first one.
pub fn reference<B: Backend>(tensors: Vec<FloatTensor<B>>, factor: f32) -> Vec<FloatTensor<B>> {
    let flags = finite::reference::<B>(tensors.clone());
    tensors
        .into_iter()
        .map(|tensor| {
            // burn-cubecl 0.21.0 computes a negative size for an empty operand.
            if tensor.shape().num_elements() == 0 {
                empty_wide_like::<B>(&tensor)
            } else {
                B::float_mul_scalar(widen::<B>(tensor), factor.into())
            }
        })
        .chain([flags])
        .collect()
}
