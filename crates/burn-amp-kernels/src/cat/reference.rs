use burn_backend::Slice;

use crate::prelude::*;

/// Concatenates with Burn's op; a single part stays as it is.
pub fn reference<B: Backend>(mut parts: Vec<FloatTensor<B>>, dim: usize) -> FloatTensor<B> {
    match parts.len() {
        1 => parts.remove(0),
        _ => B::float_cat(parts, dim),
    }
}

/// Cuts with Burn's op.
pub fn reference_split<B: Backend>(
    whole: FloatTensor<B>,
    sizes: &[usize],
    dim: usize,
) -> Vec<FloatTensor<B>> {
    let mut slices: Vec<_> = whole
        .shape()
        .iter()
        .map(|size| Slice::from(0..*size))
        .collect();
    let mut start = 0;
    let mut part = |size| {
        slices[dim] = Slice::from(start..start + size);
        start += size;
        B::float_slice(whole.clone(), &slices)
    };
    sizes.iter().map(|size| part(*size)).collect()
}
