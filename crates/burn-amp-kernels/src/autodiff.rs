//! The row-wise ops on Burn's `Autodiff`, as one node of the graph each.
//!
//! Burn's `Autodiff` decomposes them into 5 to 8 ops, each of which saves its operands. One node saves the output of a
//! softmax, or the input of a log-softmax or a layer norm, in the dtype that it has in memory, and F32 numbers per row.
//! A ReLU and a dropout keep one bit per element.

use std::any::TypeId;

use burn_autodiff::{
    Autodiff,
    checkpoint::{
        base::Checkpointer,
        strategy::{CheckpointStrategy, NoCheckpointing},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{
    FloatDType, TensorMetadata,
    ops::{ActivationOps, FloatTensorOps},
    tensor::{FloatTensor, IntTensor},
};

use crate::{
    AmpBackend,
    layer_norm::{LayerNorm, LayerNormGradients},
    log_softmax::LogSoftmax,
    product,
    scalar::{self, ScalarOp},
    sign_mask::SignMask,
    widen::cast,
};

impl<B: AmpBackend, C: CheckpointStrategy> AmpBackend for Autodiff<B, C> {
    fn masked_relu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        // Any other strategy recomputes results, and a mask would cut the chain of recomputed ops.
        if TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
            return Self::relu(x);
        }
        match Masked.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let mask = B::not_positive(x.primitive.clone());
                prep.finish(mask, B::relu(x.primitive))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::relu(x.primitive)),
        }
    }

    fn mul_zeros_and_ones(x: FloatTensor<Self>, mask: FloatTensor<Self>) -> FloatTensor<Self> {
        if mask.is_tracked() || x.primitive.shape() != mask.primitive.shape() {
            return Self::float_mul(x, mask);
        }
        let output = B::float_mul(x.primitive, mask.primitive.clone());
        match Masked.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(B::not_positive(mask.primitive), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn mixed_scalar(x: FloatTensor<Self>, op: ScalarOp, scalar: f64) -> FloatTensor<Self> {
        scalar::recorded::<B, C>(x, op, scalar)
    }

    fn mixed_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        product::recorded::<B, C>(lhs, rhs)
    }

    fn mixed_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let output = B::mixed_gelu(x.primitive.clone());
        match Gelu.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(x.primitive, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn mixed_softmax(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let output = B::mixed_softmax(x.primitive, dim);
        match Softmax.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((output.clone(), dim), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn mixed_log_softmax(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        let LogSoftmax {
            output,
            log_sum_exp,
        } = B::mixed_log_softmax(x.primitive.clone(), dim, dtype);
        let statistics = log_sum_exp.clone();
        let output = match LogSoftmaxNode
            .prepare::<C>([x.node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((x.primitive, statistics, dim), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        };
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
        let log_sum_exp = log_sum_exp.primitive;
        let output = B::log_softmax_at(
            output.primitive,
            x.primitive.clone(),
            log_sum_exp.clone(),
            targets.clone(),
        );
        match LogSoftmaxAt
            .prepare::<C>([x.node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((x.primitive, log_sum_exp, targets), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn mixed_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> LayerNorm<Self> {
        let (beta, beta_node) = match beta {
            Some(beta) => (Some(beta.primitive), Some(beta.node)),
            None => (None, None),
        };
        let LayerNorm {
            output,
            mean,
            inverse_std,
        } = B::mixed_layer_norm(x.primitive.clone(), gamma.primitive.clone(), beta, epsilon);
        let saved = Saved {
            x: x.primitive,
            gamma: gamma.primitive,
            mean: mean.clone(),
            inverse_std: inverse_std.clone(),
        };
        let output = match beta_node {
            Some(beta) => match LayerNormNode
                .prepare::<C>([x.node, gamma.node, beta])
                .compute_bound()
                .stateful()
            {
                OpsKind::Tracked(prep) => prep.finish(saved, output),
                OpsKind::UnTracked(prep) => prep.finish(output),
            },
            None => match LayerNormNode
                .prepare::<C>([x.node, gamma.node])
                .compute_bound()
                .stateful()
            {
                OpsKind::Tracked(prep) => prep.finish(saved, output),
                OpsKind::UnTracked(prep) => prep.finish(output),
            },
        };
        LayerNorm {
            mean: untracked::<B, C>(&output, mean),
            inverse_std: untracked::<B, C>(&output, inverse_std),
            output,
        }
    }
}

/// Wraps a tensor that is in no graph.
///
/// With Burn's feature `distributed`, `AutodiffBackend::from_inner` needs more than `B: AmpBackend`.
fn untracked<B: AmpBackend, C: CheckpointStrategy>(
    like: &FloatTensor<Autodiff<B, C>>,
    primitive: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let mut tensor = like.clone();
    tensor.primitive = primitive;
    Autodiff::<B, C>::float_set_require_grad(tensor, false)
}

/// An op through which a gradient passes unchanged, or not at all.
#[derive(Debug)]
struct Masked;

impl<B: AmpBackend> Backward<B, 1> for Masked {
    /// The elements whose gradient is 0.
    type State = SignMask<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::zeroed(grad, ops.state)
        });
    }
}

#[derive(Debug)]
struct Gelu;

impl<B: AmpBackend> Backward<B, 1> for Gelu {
    /// The input.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::mixed_gelu_backward(ops.state, grad)
        });
    }
}

#[derive(Debug)]
struct Softmax;

impl<B: AmpBackend> Backward<B, 1> for Softmax {
    /// The output, and the dimension.
    type State = (FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (output, dim) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::mixed_softmax_backward(output, grad, dim)
        });
    }
}

#[derive(Debug)]
struct LogSoftmaxNode;

impl<B: AmpBackend> Backward<B, 1> for LogSoftmaxNode {
    /// The input, its log-sum-exp, and the dimension.
    type State = (FloatTensor<B>, FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, dim) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::mixed_log_softmax_backward(x, log_sum_exp, grad, dim)
        });
    }
}

#[derive(Debug)]
struct LogSoftmaxAt;

impl<B: AmpBackend> Backward<B, 1> for LogSoftmaxAt {
    /// The input, its log-sum-exp, and the targets.
    type State = (FloatTensor<B>, FloatTensor<B>, IntTensor<B>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, targets) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::log_softmax_at_backward(x, log_sum_exp, targets, grad)
        });
    }
}

/// Has two parents, or three with a β.
#[derive(Debug)]
struct LayerNormNode;

/// The tensors that a layer norm saves for its backward pass.
#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
}

impl<B: AmpBackend, const N: usize> Backward<B, N> for LayerNormNode {
    type State = Saved<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Saved {
            x,
            gamma,
            mean,
            inverse_std,
        } = ops.state;
        let dtype = gamma.dtype();
        let grad = grads.consume::<B>(&ops.node);
        let LayerNormGradients { x, gamma, beta } =
            B::mixed_layer_norm_backward(x, gamma, mean, inverse_std, grad);
        let gradients = [x, cast::<B>(gamma, dtype), cast::<B>(beta, dtype)];
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
