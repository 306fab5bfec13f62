//! Ops on the elements of tensors that are stored in another shape than the program sees. They compute in the stored shape.

use burn_amp_kernels::AmpBackend;
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{cast::call::Decided, graph::Graph, tensor::AmpTensor};

/// An op of a tensor that is stored in another shape; the tensor, if it is not.
pub(super) fn of_one<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: AmpTensor<B, G>,
    op: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> Result<AmpTensor<B, G>, AmpTensor<B, G>> {
    if !call.stays_in_f32() || x.stored_shape().is_none() {
        return Err(x);
    }
    let shape = x.shape();
    let result = op(call.cast(x.in_stored_shape()));
    Ok(call.result(result).seen_in(shape))
}

/// An op of two tensors that the program sees in one shape, if one of them is stored in another shape: both in that one, or in that
/// of more dimensions, in which a backend that fuses can read the other one. Otherwise the tensors.
pub(super) fn of_two<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    operands: [AmpTensor<B, G>; 2],
    op: impl FnOnce(FloatTensor<G::Inner>, FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> Result<AmpTensor<B, G>, [AmpTensor<B, G>; 2]> {
    let [shape, other] = operands.each_ref().map(TensorMetadata::shape);
    let stored = operands.iter().filter_map(AmpTensor::stored_shape);
    let common = stored.max_by_key(Shape::num_dims);
    let Some(common) = common.filter(|_| call.stays_in_f32() && other == shape) else {
        return Err(operands);
    };
    let [lhs, rhs] = operands.map(|tensor| {
        let values = call.cast(tensor.in_stored_shape());
        match values.shape() == common {
            true => values,
            false => G::Inner::float_reshape(values, common.clone()),
        }
    });
    Ok(call.result(op(lhs, rhs)).seen_in(shape))
}
