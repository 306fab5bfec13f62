//! Tensors that are filled with one number, and the ops that put values into them.
//!
//! A program makes them in F32: the zeros around an image, the empty output of a recurrent net, the number behind a mask.
//! Ops that only move values lose no digit if they take such a number in the dtype of the other values. So it does not
//! widen them.

use burn_amp_core::{Op, Precision, scalar};
use burn_amp_kernels::{AmpBackend, cat::cat};
use burn_backend::{Scalar, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use crate::{
    backend::Amp,
    cast::call::{Call, Decided},
    graph::Graph,
    policy::ConfigSource,
    tensor::{AmpTensor, Recipe},
};

/// Makes a tensor that is filled with `value`, or whose values are undefined, known to be.
pub(super) fn filled<B: AmpBackend, G: Graph<B>>(
    tensor: AmpTensor<B, G>,
    value: Option<Scalar>,
) -> AmpTensor<B, G> {
    let low = tensor.context.policy.compute();
    let is_exact = value.is_none_or(|value| !scalar::is_rounded(value.elem(), low));
    if low.is_low() && is_exact && tensor.logical == Precision::F32 {
        tensor.with_recipe(Recipe::Filled)
    } else {
        tensor
    }
}

/// Makes a mask known to be one.
pub(super) fn zeros_and_ones<B: AmpBackend, G: Graph<B>>(
    tensor: AmpTensor<B, G>,
    is_mask: bool,
) -> AmpTensor<B, G> {
    if is_mask {
        tensor.with_recipe(Recipe::ZerosAndOnes)
    } else {
        tensor
    }
}

/// Shows a call the operands of an op that moves their values: those that are filled after the others.
pub(super) fn look<'a, B: AmpBackend, G: Graph<B>>(
    call: &mut Call<B>,
    tensors: impl IntoIterator<Item = &'a AmpTensor<B, G>> + Clone,
) {
    let is_filled = |tensor: &&AmpTensor<B, G>| {
        matches!(tensor.recipe(), Some(Recipe::Filled)) && tensor.stored() == Precision::F32
    };
    let others = tensors.clone().into_iter();
    others
        .filter(|tensor| !is_filled(tensor))
        .for_each(|tensor| call.float(tensor));
    let filled = tensors.into_iter();
    filled
        .filter(is_filled)
        .for_each(|tensor| call.filled(tensor));
}

pub(super) fn float_cat<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensors: Vec<FloatTensor<Amp<B, P, G>>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_cat);
    look(&mut call, &tensors);
    let call = call.decide();
    if let Some(rounded) = rounded_cat(&call, &tensors, dim) {
        return rounded;
    }
    let tensors = tensors
        .into_iter()
        .map(|tensor| call.cast(tensor))
        .collect();
    call.result(if !call.lowers {
        G::Inner::float_cat(tensors, dim)
    } else if call.recomputes {
        cat::<G::Recomputed>(tensors, dim)
    } else {
        cat::<G::Inner>(tensors, dim)
    })
}

/// The concatenation of parts in F32 and in low precision, stored in low precision with its F32 values within reach: if
/// at least half of the values are in low precision, or chains of such.
fn rounded_cat<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    parts: &[AmpTensor<B, G>],
    dim: usize,
) -> Option<AmpTensor<B, G>> {
    let is_low = |part: &&AmpTensor<B, G>| part.stored().is_low();
    let is_chain = |part: &&AmpTensor<B, G>| part.chain().is_some();
    let elements = |part: &AmpTensor<B, G>| part.shape().num_elements();
    let low = parts.iter().filter(|part| is_low(part) || is_chain(part));
    let is_mostly_low =
        2 * low.map(elements).sum::<usize>() >= parts.iter().map(elements).sum::<usize>();
    let is_mixed = is_mostly_low && parts.iter().any(|part| is_low(&part));
    // A part that remembers its own parts would keep all of them, those of a loop that appends rows without end.
    let is_cat = |part: &AmpTensor<B, G>| matches!(part.recipe(), Some(Recipe::Cat(..)));
    let is_nested = parts.iter().any(is_cat);
    if !is_mixed || is_nested || !call.stays_in_f32() || !call.promotes() {
        return None;
    }
    let low = parts.iter().map(|part| call.cast_low(part.clone()));
    let mut whole = call.stored(cat::<G::Inner>(low.collect(), dim));
    whole.facts_mut().logical = Precision::F32;
    Some(whole.with_recipe(Recipe::Cat(parts.to_vec(), dim)))
}
