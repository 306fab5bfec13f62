//! Ops that continue a chain instead of computing it, and ops that end one; see [`Lazy`].
//!
//! An op is part of a chain if it computes in F32 what it stores in F32, or keeps what it is given, under a policy that
//! lowers other ops. Everything else goes its usual way, and so do operands for which a chain has no place.

use burn_amp_core::{Class, Op, Precision};
use burn_amp_kernels::AmpBackend;
use burn_backend::{Scalar, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::computed,
    },
    graph::Graph,
    policy::ConfigSource,
    tensor::{AmpTensor, Lazy, Nature},
};

/// Calls a method of the chain of a tensor: the one that it has, or a new one of a tensor in low precision.
fn chained<B: AmpBackend, G: Graph<B>, T>(
    x: &AmpTensor<B, G>,
    next: impl FnOnce(&Lazy<B, G>) -> Option<T>,
) -> Option<T> {
    match &x.nature {
        Nature::Lazy(lazy) => next(lazy),
        _ => next(&Lazy::new(x)?),
    }
}

/// An operation of a tensor and a small operand.
type Step<B, G> = fn(&Lazy<B, G>, FloatTensor<<G as Graph<B>>::Inner>) -> Option<Lazy<B, G>>;

/// Continues the chain of `x` with a small operand, if there is a place for it.
pub(super) fn continued<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    operand: &AmpTensor<B, G>,
    step: Step<B, G>,
) -> Option<AmpTensor<B, G>> {
    if !call.stays_in_f32() || operand.stored().is_low() {
        return None;
    }
    chained(x, |lazy| {
        lazy.has_place_for(&operand.shape())
            .then(|| step(lazy, call.cast(operand.clone())))?
    })
    .map(|lazy| call.lazy(lazy))
}

/// Adds an F32 tensor that is as large as the chain of `x`, if there is a place for it.
pub(super) fn with_summand<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    summand: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    match &x.nature {
        Nature::Lazy(lazy)
            if call.stays_in_f32() && lazy.has_place_for_summand(&summand.shape()) =>
        {
            let sum = lazy.with_summand(call.cast(summand.clone()));
            Some(call.lazy(sum))
        }
        _ => None,
    }
}

/// The ReLU of a chain.
pub(super) fn relu<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    match &x.nature {
        Nature::Lazy(lazy) if call.keeps() || call.stays_in_f32() => {
            let relu = lazy.relu()?;
            Some(if relu.is_sum() {
                // Other blocks read it in F32, and products in low precision: it is computed once, for both.
                call.stored(call.as_stored(call.lazy(relu)))
            } else {
                call.lazy(relu)
            })
        }
        _ => None,
    }
}

/// The cast of a low tensor to F32.
pub(super) fn widened<B: AmpBackend, G: Graph<B>>(x: &AmpTensor<B, G>) -> Option<AmpTensor<B, G>> {
    if !x.stored().is_low() || !x.context.policy.compute().is_low() {
        return None;
    }
    let lazy = chained(x, |lazy| Some(lazy.widened()))?;
    let mut call = Call::custom(Class::Full);
    call.float(x);
    let mut result = call.decide().lazy(lazy);
    result.logical = Precision::F32;
    Some(result)
}

pub(super) fn float_powi_scalar<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_powi_scalar);
    call.float(&lhs);
    call.scalar(rhs);
    let call = call.decide();
    if rhs.elem::<i64>() == 2
        && call.stays_in_f32()
        && let Some(squares) = chained(&lhs, Lazy::squared)
    {
        return call.lazy(squares);
    }
    let lhs = call.cast(lhs);
    call.result(computed!(
        [F],
        call,
        float_powi_scalar(lhs, call.scalar(rhs))
    ))
}

/// The sum or the mean over some of the dimensions, from the low tensor itself.
fn reduced<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    is_reduced: impl Fn(usize) -> bool,
    mean: bool,
) -> Option<FloatTensor<G::Inner>> {
    if !call.stays_in_f32() {
        return None;
    }
    chained(x, |lazy| lazy.moment(is_reduced, mean))
}

fn reduction<B: AmpBackend, G: Graph<B>>(op: Op, x: &AmpTensor<B, G>) -> Decided<B> {
    let mut call = Call::new::<G>(op);
    call.float(x);
    call.decide()
}

pub(super) fn float_sum<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let call = reduction(Op::float_sum, &tensor);
    call.result(match reduced(&call, &tensor, |_| true, false) {
        Some(sum) => G::Inner::float_reshape(sum, [1].into()),
        None => computed!([F], call, float_sum(call.cast(tensor))),
    })
}

pub(super) fn float_sum_dim<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let call = reduction(Op::float_sum_dim, &tensor);
    call.result(match reduced(&call, &tensor, |other| other == dim, false) {
        Some(sum) => sum,
        None => computed!([F], call, float_sum_dim(call.cast(tensor), dim)),
    })
}

pub(super) fn float_mean<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let call = reduction(Op::float_mean, &tensor);
    call.result(match reduced(&call, &tensor, |_| true, true) {
        Some(mean) => G::Inner::float_reshape(mean, [1].into()),
        None => computed!([F], call, float_mean(call.cast(tensor))),
    })
}

pub(super) fn float_mean_dim<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let call = reduction(Op::float_mean_dim, &tensor);
    call.result(match reduced(&call, &tensor, |other| other == dim, true) {
        Some(mean) => mean,
        None => computed!([F], call, float_mean_dim(call.cast(tensor), dim)),
    })
}

/// Decides a call of an op that moves values, and permutes the chain of a low tensor instead of computing it.
fn permuted<B: AmpBackend, G: Graph<B>>(
    op: Op,
    x: &AmpTensor<B, G>,
    axes: impl FnOnce() -> Vec<usize>,
) -> (Decided<B>, Option<AmpTensor<B, G>>) {
    let call = reduction(op, x);
    let lazy = call
        .keeps()
        .then(|| chained(x, |lazy| lazy.permuted(&axes())))
        .flatten();
    let lazy = lazy.map(|lazy| call.lazy(lazy));
    (call, lazy)
}

/// The order of the dimensions after two of them were swapped.
fn swapped(rank: usize, dim1: usize, dim2: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(dim1, dim2);
    axes
}

pub(super) fn float_transpose<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let rank = tensor.rank();
    let axes = || swapped(rank, rank - 2, rank - 1);
    match permuted(Op::float_transpose, &tensor, axes) {
        (_, Some(lazy)) => lazy,
        (call, None) => call.result(computed!([F], call, float_transpose(call.cast(tensor)))),
    }
}

pub(super) fn float_swap_dims<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim1: usize,
    dim2: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let rank = tensor.rank();
    match permuted(Op::float_swap_dims, &tensor, || swapped(rank, dim1, dim2)) {
        (_, Some(lazy)) => lazy,
        (call, None) => {
            let tensor = call.cast(tensor);
            call.result(computed!([F], call, float_swap_dims(tensor, dim1, dim2)))
        }
    }
}

pub(super) fn float_permute<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    axes: &[usize],
) -> FloatTensor<Amp<B, P, G>> {
    match permuted(Op::float_permute, &tensor, || axes.to_vec()) {
        (_, Some(lazy)) => lazy,
        (call, None) => call.result(computed!([F], call, float_permute(call.cast(tensor), axes))),
    }
}

/// A tensor of which no view is known is reshaped at once: that copies nothing.
pub(super) fn float_reshape<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    shape: Shape,
) -> FloatTensor<Amp<B, P, G>> {
    let call = reduction(Op::float_reshape, &tensor);
    if let Nature::Lazy(lazy) = &tensor.nature
        && call.keeps()
        && let Some(lazy) = lazy.reshaped(&shape)
    {
        return call.lazy(lazy);
    }
    let tensor = call.cast(tensor);
    call.result(computed!([F], call, float_reshape(tensor, shape)))
}
