//! Ops on images in low precision that stay in their order of memory.
//!
//! Convolutions write images with their channels last. A kernel that a backend fuses brings them into the order of their dimensions, and the
//! next convolution or norm would copy them back.

use burn_amp_core::Precision;
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    affine::{Affine, End, has_layout},
};
use burn_backend::{TensorMetadata, tensor::FloatTensor};

use super::lazy;
use crate::{
    cast::call::Decided,
    graph::Graph,
    precision,
    tensor::{AmpTensor, Lazy},
    thresholds::worth_waiting,
};

/// Whether a tensor in low precision may be images, and is large enough for an op of its own.
pub(super) fn are_images<B: AmpBackend, G: Graph<B>>(x: &AmpTensor<B, G>) -> bool {
    let is_large = x.shape().num_elements() >= worth_waiting();
    x.is_plain() && x.stored().is_low() && has_layout(x) && is_large
}

/// A ReLU, or a leaky one, of a chain or of images.
pub(super) fn rectified<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    end: End,
) -> Option<AmpTensor<B, G>> {
    lazy::ended(call, x, end).or_else(|| {
        let is_one_op = call.keeps() && !call.recomputes && are_images(x);
        is_one_op.then(|| {
            let x = call.as_stored(x.clone());
            call.stored(kernels::affine::rectified::<G::Inner>(x, end))
        })
    })
}

/// The sum of images and what is stored as they are: other images, or a tensor that is small beside them.
pub(super) fn sum<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    images: &AmpTensor<B, G>,
    other: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    let dtype = images.stored();
    if !call.keeps() || call.recomputes || !are_images(images) || other.stored() != dtype {
        return None;
    }
    let shape = images.shape();
    let small = Lazy::new(images).and_then(|lazy| lazy.open_for(&other.shape()));
    if small.is_none() && other.shape() != shape {
        return None;
    }
    let values = |tensor: &AmpTensor<B, G>| {
        let recorded = tensor.recorded.clone();
        G::with_f32_gradient(call.as_stored(tensor.clone()), &recorded)
    };
    let mut chain = Affine::identity(shape);
    let mut summand: Option<FloatTensor<G::Inner>> = None;
    match small {
        Some(_) => {
            chain.before = Some(precision::cast::<G::Inner>(
                call.as_stored(other.clone()),
                Precision::F32,
            ))
        }
        None => summand = Some(values(other)),
    }
    let dtype = precision::to_float(dtype);
    let sum = kernels::affine::forward::<G::Inner>(values(images), chain, summand, dtype);
    Some(call.stored(sum))
}
