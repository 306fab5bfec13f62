//! Ops of a tensor and a scalar.
//!
//! PyTorch's kernels read and write a tensor in half precision and compute in F32 with the scalar in F32. Burn's round
//! the scalar to the dtype of the tensor first, so that the products with 0.99 are 0.2 % too small in BF16. Where the
//! dtype would round the scalar, the ops below compute as PyTorch's; where it would not, they are Burn's own.

use burn_amp_core::Op;
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{self as kernels, AmpBackend, scalar::ScalarOp};
use burn_backend::{Scalar, get_device_settings, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{cast::call::Decided, graph::Graph, tensor::AmpTensor};

/// The result of an op with its scalar in F32, stored as the tensor is.
pub(super) fn in_f32<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    op: ScalarOp,
    scalar: Scalar,
) -> AmpTensor<B, G> {
    call.stored(kernels::scalar::forward::<G::Inner>(x, op, scalar.elem()))
}

/// Whether a graph records the ops of which a clamp consists, as Burn's `Autodiff` does it: to compare with another bound,
/// or to see the masks.
///
/// The bound itself rounds as the result does, so the values are those of Burn's op. But in a graph, whether an element
/// passes its gradient must not depend on the rounded bound.
pub(super) fn is_composed<B: AmpBackend, G: Graph<B>>(call: &Decided<B>) -> bool {
    G::RECORDS && (call.rounds_scalar() || call.is_watched())
}

/// Replaces what is below the bound, as the clamp does that Burn provides.
pub(super) fn at_least<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    min: Scalar,
) -> FloatTensor<G::Inner> {
    let dtype = get_device_settings::<G::Inner>(&device_of::<G::Inner>(&x)).bool_dtype;
    let bound = call.scalar_for(Op::float_lower_elem, min);
    let below = G::Inner::float_lower_elem(x.clone(), bound, dtype);
    G::Inner::float_mask_fill(x, call.bool_result::<G>(below), min)
}

/// Replaces what is above the bound, as the clamp does that Burn provides.
pub(super) fn at_most<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    max: Scalar,
) -> FloatTensor<G::Inner> {
    let dtype = get_device_settings::<G::Inner>(&device_of::<G::Inner>(&x)).bool_dtype;
    let bound = call.scalar_for(Op::float_greater_elem, max);
    let above = G::Inner::float_greater_elem(x.clone(), bound, dtype);
    G::Inner::float_mask_fill(x, call.bool_result::<G>(above), max)
}
