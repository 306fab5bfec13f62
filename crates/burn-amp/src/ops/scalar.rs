//! Ops of a tensor and a scalar.
//!
//! PyTorch's kernels read and write a tensor in half precision and compute in F32 with the scalar in F32. Burn's round
//! the scalar to the dtype of the tensor first, so that the products with 0.99 are 0.2 % too small in BF16. Where the
//! dtype would round the scalar, the ops below compute as PyTorch's; where it would not, they are Burn's own.

use burn_amp_core::Op;
use burn_amp_kernels::{self as kernels, AmpBackend, scalar::ScalarOp};
use burn_backend::{
    Scalar, get_device_settings,
    ops::{ActivationOps, FloatTensorOps},
    tensor::FloatTensor,
};

use super::scores;
use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::computed,
    },
    graph::Graph,
    policy::ConfigSource,
    tensor::AmpTensor,
};

/// An op of the inner backend.
type Plain<G, B> =
    fn(FloatTensor<<G as Graph<B>>::Inner>, Scalar) -> FloatTensor<<G as Graph<B>>::Inner>;

/// Computes `plain` or, in a chain that the backward pass computes again, `recomputed`; `mixed` if they would round the
/// scalar.
fn arithmetic<B: AmpBackend, G: Graph<B>>(
    op: Op,
    x: AmpTensor<B, G>,
    scalar: Scalar,
    mixed: ScalarOp,
    [plain, recomputed]: [Plain<G, B>; 2],
) -> AmpTensor<B, G> {
    let mut call = Call::new::<G>(op);
    call.float(&x);
    call.scalar(scalar);
    let call = call.decide();
    if call.lowers()
        && let Some(scores) = scores::scaled(&call, &x, mixed, scalar)
    {
        scores
    } else if call.rounds_scalar() {
        call.stored(kernels::scalar::forward::<G::Inner>(
            call.cast(x),
            mixed,
            scalar.elem(),
        ))
    } else {
        let compute = if call.recomputes() { recomputed } else { plain };
        call.result(compute(call.cast(x), scalar))
    }
}

pub(super) fn float_add_scalar<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let plain = [G::Inner::float_add_scalar, G::Recomputed::float_add_scalar];
    arithmetic(Op::float_add_scalar, lhs, rhs, ScalarOp::Add, plain)
}

pub(super) fn float_sub_scalar<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let plain = [G::Inner::float_sub_scalar, G::Recomputed::float_sub_scalar];
    arithmetic(Op::float_sub_scalar, lhs, rhs, ScalarOp::Sub, plain)
}

pub(super) fn float_mul_scalar<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let plain = [G::Inner::float_mul_scalar, G::Recomputed::float_mul_scalar];
    arithmetic(Op::float_mul_scalar, lhs, rhs, ScalarOp::Mul, plain)
}

pub(super) fn float_div_scalar<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let plain = [G::Inner::float_div_scalar, G::Recomputed::float_div_scalar];
    arithmetic(Op::float_div_scalar, lhs, rhs, ScalarOp::Div, plain)
}

pub(super) fn leaky_relu<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    negative_slope: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let (mixed, plain) = (
        ScalarOp::LeakyRelu,
        [G::Inner::leaky_relu, G::Recomputed::leaky_relu],
    );
    arithmetic(Op::leaky_relu, tensor, negative_slope, mixed, plain)
}

/// The bound itself rounds as the result does, so the values are those of Burn's op. But in a graph, whether an element
/// passes its gradient must not depend on the rounded bound.
pub(super) fn float_clamp_min<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    min: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let call = clamp::<B, G>(Op::float_clamp_min, &tensor, [min]);
    let x = call.cast(tensor);
    call.result(if is_composed::<B, G>(&call) {
        at_least::<B, G>(&call, x, min)
    } else {
        computed!([F], call, float_clamp_min(x, min))
    })
}

pub(super) fn float_clamp_max<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    max: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let call = clamp::<B, G>(Op::float_clamp_max, &tensor, [max]);
    let x = call.cast(tensor);
    call.result(if is_composed::<B, G>(&call) {
        at_most::<B, G>(&call, x, max)
    } else {
        computed!([F], call, float_clamp_max(x, max))
    })
}

pub(super) fn float_clamp<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    min: Scalar,
    max: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let call = clamp::<B, G>(Op::float_clamp, &tensor, [min, max]);
    let x = call.cast(tensor);
    call.result(if is_composed::<B, G>(&call) {
        let x = at_most::<B, G>(&call, x, max);
        at_least::<B, G>(&call, x, min)
    } else {
        computed!([F], call, float_clamp(x, min, max))
    })
}

fn clamp<B: AmpBackend, G: Graph<B>>(
    op: Op,
    tensor: &AmpTensor<B, G>,
    bounds: impl IntoIterator<Item = Scalar>,
) -> Decided<B> {
    let mut call = Call::new::<G>(op);
    call.float(tensor);
    bounds.into_iter().for_each(|bound| call.scalar(bound));
    call.decide()
}

/// Whether a graph records the ops of which a clamp consists, as Burn's `Autodiff` does it: to compare with another bound,
/// or to see the masks.
fn is_composed<B: AmpBackend, G: Graph<B>>(call: &Decided<B>) -> bool {
    G::RECORDS && (call.rounds_scalar() || call.is_watched())
}

/// Replaces what is below the bound, as the clamp does that Burn provides.
fn at_least<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    min: Scalar,
) -> FloatTensor<G::Inner> {
    let dtype = get_device_settings::<G::Inner>(&G::Inner::float_device(&x)).bool_dtype;
    let bound = call.scalar_for(Op::float_lower_elem, min);
    let below = G::Inner::float_lower_elem(x.clone(), bound, dtype);
    G::Inner::float_mask_fill(x, call.bool_result::<G>(below), min)
}

/// Replaces what is above the bound, as the clamp does that Burn provides.
fn at_most<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    max: Scalar,
) -> FloatTensor<G::Inner> {
    let dtype = get_device_settings::<G::Inner>(&G::Inner::float_device(&x)).bool_dtype;
    let bound = call.scalar_for(Op::float_greater_elem, max);
    let above = G::Inner::float_greater_elem(x.clone(), bound, dtype);
    G::Inner::float_mask_fill(x, call.bool_result::<G>(above), max)
}
