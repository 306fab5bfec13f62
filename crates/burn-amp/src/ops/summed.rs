//! Ops whose backward pass adds gradients onto the elements of their operand, in the dtype of the gradient.
//!
//! A row of an embedding may be looked up thousands of times, and in BF16 a sum of ones stops at 256. So the gradients of
//! an operand in low precision are added in F32 and rounded once. Burn's backward pass does that if it is given a
//! gradient in F32.

use burn_amp_core::Op;
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    ops::{FloatTensorOps, ModuleOps},
    tensor::{FloatTensor, IntTensor},
};

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

fn summed<B: AmpBackend, G: Graph<B>>(
    op: Op,
    tensor: AmpTensor<B, G>,
    compute: impl FnOnce(&Decided<B>, FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
) -> AmpTensor<B, G> {
    let mut call = Call::new::<G>(op);
    call.float(&tensor);
    let call = call.decide();
    call.summed(tensor, |tensor| compute(&call, tensor))
}

pub(super) fn embedding<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    weights: FloatTensor<Amp<B, P, G>>,
    indices: IntTensor<B>,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::embedding, weights, |call, weights| {
        computed!([F], call, embedding(weights, indices))
    })
}

pub(super) fn float_select<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
    indices: IntTensor<B>,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::float_select, tensor, |call, tensor| {
        computed!([F], call, float_select(tensor, dim, indices))
    })
}

pub(super) fn float_gather_nd<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    data: FloatTensor<Amp<B, P, G>>,
    indices: IntTensor<B>,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::float_gather_nd, data, |call, data| {
        computed!([F], call, float_gather_nd(data, indices))
    })
}

pub(super) fn float_cummin<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::float_cummin, tensor, |call, tensor| {
        computed!([F], call, float_cummin(tensor, dim))
    })
}

pub(super) fn float_cummax<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::float_cummax, tensor, |call, tensor| {
        computed!([F], call, float_cummax(tensor, dim))
    })
}

pub(super) fn float_unfold<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
    size: usize,
    step: usize,
) -> FloatTensor<Amp<B, P, G>> {
    summed(Op::float_unfold, tensor, |call, tensor| {
        computed!([F], call, float_unfold(tensor, dim, size, step))
    })
}
