//! Ops on the elements of tensors that are stored in another shape than the program sees. They compute in the stored shape.

use burn_amp_kernels::AmpBackend;
use burn_backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{cast::call::Decided, graph::Graph, tensor::AmpTensor};

/// An op of a tensor that is stored in another shape.
pub(super) fn of_one<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    op: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> Option<AmpTensor<B, G>> {
    if !call.stays_in_f32() {
        return None;
    }
    let stored = x.in_stored_shape()?;
    Some(call.result(op(call.cast(stored))).seen_in(x.shape()))
}

/// An op of two tensors that the program sees in one shape, if one of them is stored in another shape: both in that one, or in that
/// of more dimensions, in which a backend that fuses can read the other one.
pub(super) fn of_two<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    lhs: &AmpTensor<B, G>,
    rhs: &AmpTensor<B, G>,
    op: impl FnOnce(FloatTensor<G::Inner>, FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> Option<AmpTensor<B, G>> {
    let shape = lhs.shape();
    if !call.stays_in_f32() || rhs.shape() != shape {
        return None;
    }
    let stored = [lhs.in_stored_shape(), rhs.in_stored_shape()];
    let shapes = stored.iter().flatten().map(TensorMetadata::shape);
    let common = shapes.max_by_key(|shape| shape.num_dims())?;
    let [lhs, rhs] = [(lhs, 0), (rhs, 1)].map(|(tensor, at)| {
        let values = call.cast(stored[at].clone().unwrap_or_else(|| tensor.clone()));
        match values.shape() == common {
            true => values,
            false => G::Inner::float_reshape(values, common.clone()),
        }
    });
    Some(call.result(op(lhs, rhs)).seen_in(shape))
}
