//! Ops that continue a chain instead of computing it, and ops that end one; see [`Lazy`].
//!
//! An op is part of a chain if it computes in F32 what it stores in F32, or keeps what it is given, under a policy that
//! lowers other ops. Everything else goes its usual way, and so do operands for which a chain has no place.

use burn_amp_core::{Class, Precision};
use burn_amp_kernels::{
    AmpBackend,
    affine::{Bounds, End},
};
use burn_backend::{Scalar, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::images::are_images;
use crate::{
    cast::call::{Call, Decided},
    graph::Graph,
    tensor::{AmpTensor, Lazy},
};

/// Calls a method of the chain of a tensor: the one that it has, or a new one of a tensor in low precision.
fn chained<B: AmpBackend, G: Graph<B>, T>(
    x: &AmpTensor<B, G>,
    next: impl FnOnce(&Lazy<B, G>) -> Option<T>,
) -> Option<T> {
    match x.chain() {
        Some(lazy) => next(lazy),
        None => next(&Lazy::new(x)?),
    }
}

/// An operation of a tensor and a small operand in the grid of its chain.
type Continuation<B, G> =
    fn(&Lazy<B, G>, FloatTensor<<G as Graph<B>>::Inner>) -> Option<Lazy<B, G>>;

/// Continues the chain of `x` with a small operand, if there is a place for it.
pub(super) fn continued<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    operand: &AmpTensor<B, G>,
    step: Continuation<B, G>,
) -> Option<AmpTensor<B, G>> {
    if !call.stays_in_f32() || operand.stored().is_low() {
        return None;
    }
    chained(x, |lazy| {
        let grid = lazy.open_for(&operand.shape())?;
        let operand = operand.clone();
        let is_in_grid = operand.stored_shape().is_some_and(|shape| shape == grid);
        let factor = if is_in_grid && lazy.is_in_order(&grid) {
            call.cast(operand.in_stored_shape())
        } else {
            lazy.factor(call.cast(operand), &grid)
        };
        step(lazy, factor)
    })
    .map(|lazy| call.lazy(lazy))
}

/// Adds a tensor that is as large as the chain of `x`, if there is a place for it. One in low precision is read as it is stored, and another
/// chain of images as the images are.
pub(super) fn with_summand<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    summand: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    match x.chain() {
        Some(lazy) if call.stays_in_f32() && lazy.has_place_for_summand(&summand.shape()) => {
            let is_low = summand.is_plain() && summand.stored().is_low();
            let are_images = |chain: &Lazy<B, G>| chain.are_images() && !chain.is_sum();
            let summand = if is_low {
                let values = call.as_stored(summand.clone());
                G::with_f32_gradient(values, &summand.recorded)
            } else if lazy.are_images() && summand.chain().is_some_and(are_images) {
                call.cast_low(summand.clone())
            } else {
                call.cast(summand.clone())
            };
            Some(call.lazy(lazy.with_summand(summand)))
        }
        _ => None,
    }
}

/// A function of a chain.
pub(super) fn ended<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    end: End,
) -> Option<AmpTensor<B, G>> {
    let lazy = x.chain()?;
    if !call.keeps() && !call.stays_in_f32() {
        return None;
    }
    let ended = lazy.ended(end)?;
    Some(match ended.rounds_to() {
        Some(dtype) => call.stored(ended.in_low(dtype)),
        None => call.lazy(ended),
    })
}

/// The clamp of a chain. Without a bound on one side, that bound is infinite.
pub(super) fn clamped<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    [min, max]: [Option<Scalar>; 2],
) -> Option<AmpTensor<B, G>> {
    let bound = |bound: Option<Scalar>, without| bound.map_or(without, |bound| bound.elem());
    let bounds = Bounds::new(bound(min, f32::NEG_INFINITY), bound(max, f32::INFINITY))?;
    ended(call, x, End::Clamp(bounds))
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
    result.facts_mut().logical = Precision::F32;
    Some(result)
}

/// The square of a chain.
pub(super) fn squared<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    power: Scalar,
) -> Option<AmpTensor<B, G>> {
    let is_square = power.elem::<i64>() == 2 && call.stays_in_f32();
    let squares = is_square.then(|| chained(x, Lazy::squared)).flatten()?;
    Some(call.lazy(squares))
}

/// The sum or the mean over a dimension, or over all of them, from the low tensor itself.
pub(super) fn reduced<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    dim: Option<usize>,
    mean: bool,
) -> Option<AmpTensor<B, G>> {
    if !call.stays_in_f32() {
        return None;
    }
    let is_reduced = |other| dim.is_none_or(|dim| dim == other);
    let (moment, shape) = chained(x, |lazy| lazy.moment(is_reduced, mean))?;
    Some(match dim {
        Some(_) => call.result(moment).seen_in(shape),
        None => call.result(G::Inner::float_reshape(moment, [1].into())),
    })
}

/// A chain, or a tensor whose values are there in low precision as well, with its dimensions in another order.
pub(super) fn permuted<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    axes: impl FnOnce(usize) -> Vec<usize>,
) -> Option<AmpTensor<B, G>> {
    if !call.keeps() {
        return None;
    }
    if let Some(low) = lowered(x) {
        let axes = axes(x.rank());
        let x = G::Inner::float_permute(call.as_stored(x.clone()), &axes);
        return Some(with_low(call, x, low, |low| B::float_permute(low, &axes)));
    }
    let lazy = chained(x, |lazy| lazy.permuted(&axes(x.rank())))?;
    Some(call.lazy(lazy))
}

/// The values of an F32 tensor in low precision, if they are there: its view has those, too.
fn lowered<B: AmpBackend, G: Graph<B>>(x: &AmpTensor<B, G>) -> Option<(Precision, FloatTensor<B>)> {
    let is_plain = x.recipe().is_none() && x.stored() == Precision::F32;
    is_plain.then(|| x.lowered()).flatten()
}

/// The result of a view, with that of the values in low precision.
fn with_low<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    result: FloatTensor<G::Inner>,
    (to, low): (Precision, FloatTensor<B>),
    view: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> AmpTensor<B, G> {
    let result = call.stored(result);
    result.recorded.add_low(to, view(low));
    result
}

/// The order of the dimensions after two of them were swapped.
pub(super) fn swapped(rank: usize, dim1: usize, dim2: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(dim1, dim2);
    axes
}

/// A chain, few elements, a bias, or a tensor whose values are there in low precision as well, in another shape. So are images in low
/// precision: to join their channels with their places is a copy, which a norm over groups of channels need not read. Another tensor is
/// reshaped at once: that copies nothing.
pub(super) fn reshaped<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    shape: &Shape,
) -> Option<AmpTensor<B, G>> {
    if !call.keeps() {
        return None;
    }
    if let Some(lazy) = x.chain() {
        return Some(call.lazy(lazy.reshaped(shape)?));
    }
    let Some(low) = lowered(x) else {
        if are_images(x)
            && let Some(lazy) = chained(x, |lazy| lazy.reshaped(shape))
        {
            return Some(call.lazy(lazy));
        }
        let bias = x.as_bias(shape);
        let x = bias.as_ref().unwrap_or(x);
        let waits = x.may_be_reshaped();
        return waits.then(|| call.reshaped(x.clone(), shape.clone()));
    };
    let x = G::Inner::float_reshape(call.as_stored(x.clone()), shape.clone());
    Some(with_low(call, x, low, |low| {
        B::float_reshape(low, shape.clone())
    }))
}
