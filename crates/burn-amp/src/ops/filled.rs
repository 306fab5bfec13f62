//! Tensors that are filled with one number, and the ops that put values into them.
//!
//! A program makes them in F32: the zeros around an image, the empty output of a recurrent net, the number behind a mask.
//! Ops that only move values lose no digit if they take such a number in the dtype of the other values. So it does not
//! widen them.

use std::sync::Arc;

use burn_amp_core::{Op, Precision, scalar};
use burn_amp_kernels::{AmpBackend, cat::cat};
use burn_backend::{
    FloatDType, Scalar, Shape, Slice, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{BoolTensor, Device, FloatTensor},
};

use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::computed,
    },
    graph::Graph,
    policy::ConfigSource,
    tensor::{AmpTensor, Nature, Rounded},
};

/// Wraps a tensor that is filled with `value`, or whose values are undefined.
fn filled<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    op: Op,
    values: FloatTensor<G::Inner>,
    value: Option<Scalar>,
    device: &Device<B>,
) -> AmpTensor<B, G> {
    let mut tensor = made::<B, P, G>(op, values, device);
    let low = tensor.context.policy.compute();
    let is_exact = value.is_none_or(|value| !scalar::is_rounded(value.elem(), low));
    if low.is_low() && is_exact && tensor.logical == Precision::F32 {
        tensor.nature = Nature::Filled;
    }
    tensor
}

pub(super) fn float_zeros<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    shape: Shape,
    device: &Device<B>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    let zeros = G::Inner::float_zeros(shape, device, dtype);
    filled::<B, P, G>(Op::float_zeros, zeros, Some(0f32.into()), device)
}

pub(super) fn float_ones<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    shape: Shape,
    device: &Device<B>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    let ones = G::Inner::float_ones(shape, device, dtype);
    filled::<B, P, G>(Op::float_ones, ones, Some(1f32.into()), device)
}

pub(super) fn float_full<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    shape: Shape,
    value: Scalar,
    device: &Device<B>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    let full = G::Inner::float_full(shape, value, device, dtype);
    filled::<B, P, G>(Op::float_full, full, Some(value), device)
}

pub(super) fn float_empty<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    shape: Shape,
    device: &Device<B>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    let empty = G::Inner::float_empty(shape, device, dtype);
    filled::<B, P, G>(Op::float_empty, empty, None, device)
}

/// Wraps a tensor that an op on no float tensor has made.
pub(super) fn made<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    op: Op,
    values: FloatTensor<G::Inner>,
    device: &Device<B>,
) -> AmpTensor<B, G> {
    let mut call = Call::new::<G>(op);
    call.device::<P, _>(|| device);
    call.decide().result(values)
}

/// Begins a call of an op that moves values of `tensors`.
fn moving<'a, B: AmpBackend, G: Graph<B>>(
    op: Op,
    tensors: impl IntoIterator<Item = &'a AmpTensor<B, G>> + Clone,
) -> Call<B> {
    let mut call = Call::new::<G>(op);
    let is_filled = |tensor: &&AmpTensor<B, G>| {
        matches!(tensor.nature, Nature::Filled) && tensor.stored() == Precision::F32
    };
    let others = tensors.clone().into_iter();
    others
        .filter(|tensor| !is_filled(tensor))
        .for_each(|tensor| call.float(tensor));
    let filled = tensors.into_iter();
    filled
        .filter(is_filled)
        .for_each(|tensor| call.filled(tensor));
    call
}

pub(super) fn float_slice_assign<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    slices: &[Slice],
    value: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let call = moving(Op::float_slice_assign, [&tensor, &value]).decide();
    let (tensor, value) = (call.cast(tensor), call.cast(value));
    call.result(computed!(
        [F],
        call,
        float_slice_assign(tensor, slices, value)
    ))
}

pub(super) fn float_mask_where<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    mask: BoolTensor<B>,
    value: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let call = moving(Op::float_mask_where, [&tensor, &value]).decide();
    let (tensor, value) = (call.cast(tensor), call.cast(value));
    call.result(computed!([F], call, float_mask_where(tensor, mask, value)))
}

pub(super) fn float_cat<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensors: Vec<FloatTensor<Amp<B, P, G>>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let call = moving(Op::float_cat, &tensors).decide();
    if let Some(rounded) = rounded_cat(&call, &tensors, dim) {
        return rounded;
    }
    let tensors = tensors
        .into_iter()
        .map(|tensor| call.cast(tensor))
        .collect();
    if call.lowers() {
        let whole = if call.recomputes() {
            cat::<G::Recomputed>(tensors, dim)
        } else {
            cat::<G::Inner>(tensors, dim)
        };
        return call.result(whole);
    }
    call.result(G::Inner::float_cat(tensors, dim))
}

/// The concatenation of parts in F32 and in low precision, stored in low precision with its F32 values within reach: if
/// at least half of the values are in low precision, or chains of such.
fn rounded_cat<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    parts: &[AmpTensor<B, G>],
    dim: usize,
) -> Option<AmpTensor<B, G>> {
    let is_low = |part: &&AmpTensor<B, G>| part.stored().is_low();
    let is_chain = |part: &&AmpTensor<B, G>| matches!(part.nature, Nature::Lazy(_));
    let elements = |part: &AmpTensor<B, G>| part.shape().num_elements();
    let low = parts.iter().filter(|part| is_low(part) || is_chain(part));
    let is_mostly_low =
        2 * low.map(elements).sum::<usize>() >= parts.iter().map(elements).sum::<usize>();
    let is_mixed = is_mostly_low && parts.iter().any(|part| is_low(&part));
    // A part that remembers its own parts would keep all of them, those of a loop that appends rows without end.
    let is_nested = parts.iter().any(AmpTensor::remembers_parts);
    if !is_mixed || is_nested || !call.stays_in_f32() || !call.promotes() {
        return None;
    }
    let low = parts.iter().map(|part| call.cast_low(part.clone()));
    let mut whole = call.stored(cat::<G::Inner>(low.collect(), dim));
    whole.logical = Precision::F32;
    whole.nature = Nature::Rounded(Arc::new(Rounded::cat(parts.to_vec(), dim)));
    Some(whole)
}
