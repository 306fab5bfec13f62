//! The ops on Burn's `Autodiff`, as one node of the graph each.
//!
//! Burn's `Autodiff` decomposes them into 5 to 8 ops, each of which saves its operands. The node of an op is in `node.rs`
//! of the op's folder, with what it saves.

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{
    FloatDType,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{
    AmpBackend,
    activation::{self, Activation},
    affine::{self, Affine, Moment},
    attention::{self, Attention},
    cat, cross_entropy,
    layer_norm::{self, LayerNorm},
    log_softmax::{self, LogSoftmax},
    made::Memory,
    product,
    scalar::{self, ScalarOp},
    sign_mask,
    softmax::{self, ScaleMask},
    weight_product,
};

impl<B: AmpBackend, C: CheckpointStrategy> AmpBackend for Autodiff<B, C> {
    fn fuses_elementwise() -> bool {
        B::fuses_elementwise()
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        B::float_memory(&tensor.primitive)
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        B::int_memory(tensor)
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        B::bool_memory(tensor)
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        B::is_same(&one.primitive, &other.primitive)
    }

    fn masked_relu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        sign_mask::relu::<B, C>(x)
    }

    fn mul_zeros_and_ones(x: FloatTensor<Self>, mask: FloatTensor<Self>) -> FloatTensor<Self> {
        sign_mask::mul::<B, C>(x, mask)
    }

    fn mixed_scalar(x: FloatTensor<Self>, op: ScalarOp, scalar: f64) -> FloatTensor<Self> {
        scalar::recorded::<B, C>(x, op, scalar)
    }

    fn mixed_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        product::recorded::<B, C>(lhs, rhs)
    }

    fn weight_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        weight_product::recorded::<B, C>(x, weight, bias)
    }

    fn cat(parts: Vec<FloatTensor<Self>>, dim: usize) -> FloatTensor<Self> {
        cat::recorded::<B, C>(parts, dim)
    }

    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::recorded::<B, C>(x, affine, plus, dtype)
    }

    fn mixed_moment(x: FloatTensor<Self>, moment: Moment<Self>) -> FloatTensor<Self> {
        affine::recorded_moment::<B, C>(x, moment)
    }

    fn mixed_activation(
        x: FloatTensor<Self>,
        activation: Activation,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        activation::recorded::<B, C>(x, activation, dtype)
    }

    fn scaled_masked_softmax(
        x: FloatTensor<Self>,
        dim: usize,
        before: ScaleMask<BoolTensor<Self>>,
    ) -> FloatTensor<Self> {
        softmax::recorded::<B, C>(x, dim, before)
    }

    fn mixed_attention(operands: Attention<Self>) -> FloatTensor<Self> {
        attention::recorded::<B, C>(operands)
    }

    fn mixed_log_softmax(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        let (output, log_sum_exp) = log_softmax::recorded::<B, C>(x, dim, dtype);
        LogSoftmax {
            log_sum_exp: untracked::<B, C>(&output, log_sum_exp),
            output,
        }
    }

    fn log_softmax_at(
        output: FloatTensor<Self>,
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> FloatTensor<Self> {
        cross_entropy::recorded::<B, C>(output, x, log_sum_exp, targets)
    }

    fn mixed_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
        copy: Option<FloatDType>,
    ) -> LayerNorm<Self> {
        let layer_norm::Recorded {
            output,
            copy,
            mean,
            inverse_std,
        } = layer_norm::recorded::<B, C>(x, gamma, beta, epsilon, copy);
        LayerNorm {
            copy: copy.map(|copy| untracked::<B, C>(&output, copy)),
            mean: untracked::<B, C>(&output, mean),
            inverse_std: untracked::<B, C>(&output, inverse_std),
            output,
        }
    }
}

/// Wraps a tensor that is in no graph.
///
/// With Burn's feature `distributed`, `AutodiffBackend::from_inner` needs more than `B: AmpBackend`.
pub(crate) fn untracked<B: AmpBackend, C: CheckpointStrategy>(
    like: &FloatTensor<Autodiff<B, C>>,
    primitive: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let mut tensor = like.clone();
    tensor.primitive = primitive;
    Autodiff::<B, C>::float_set_require_grad(tensor, false)
}
