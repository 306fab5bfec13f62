//! The row-wise ops on Burn's `Autodiff`, as one node each.
//!
//! Burn's `Autodiff` decomposes them into 5 to 8 ops, each of which saves what it needs. One node saves the output of a softmax, or
//! the input of a log-softmax or a layer norm, in the dtype it has in memory anyway, and F32 numbers per row.

use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_backend::{
    FloatDType, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{FloatTensor, IntTensor},
};

use crate::{
    Kernels,
    layer_norm::{LayerNorm, LayerNormGradients},
    log_softmax::LogSoftmax,
    row,
};

impl<B: Kernels, C: CheckpointStrategy> Kernels for Autodiff<B, C> {
    fn gelu_in_f32(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let output = B::gelu_in_f32(x.primitive.clone());
        match Gelu.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(x.primitive, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn softmax_in_f32(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let output = B::softmax_in_f32(x.primitive, dim);
        match Softmax.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((output.clone(), dim), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn log_softmax_in_f32(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        let LogSoftmax {
            output,
            log_sum_exp,
        } = B::log_softmax_in_f32(x.primitive.clone(), dim, dtype);
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
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> FloatTensor<Self> {
        let log_sum_exp = log_sum_exp.primitive;
        let output = B::log_softmax_at(x.primitive.clone(), log_sum_exp.clone(), targets.clone());
        match LogSoftmaxAt
            .prepare::<C>([x.node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((x.primitive, log_sum_exp, targets), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn layer_norm_in_f32(
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
        } = B::layer_norm_in_f32(x.primitive.clone(), gamma.primitive.clone(), beta, epsilon);
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

/// A tensor that is in no graph. `AutodiffBackend::from_inner` would ask for more than `B: Kernels` with Burn's `distributed`.
fn untracked<B: Kernels, C: CheckpointStrategy>(
    like: &FloatTensor<Autodiff<B, C>>,
    primitive: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let mut tensor = like.clone();
    tensor.primitive = primitive;
    Autodiff::<B, C>::float_set_require_grad(tensor, false)
}

#[derive(Debug)]
struct Gelu;

impl<B: Kernels> Backward<B, 1> for Gelu {
    /// The input.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::gelu_in_f32_backward(ops.state, grad)
        });
    }
}

#[derive(Debug)]
struct Softmax;

impl<B: Kernels> Backward<B, 1> for Softmax {
    /// The output, and along which dimension.
    type State = (FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (output, dim) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::softmax_in_f32_backward(output, grad, dim)
        });
    }
}

#[derive(Debug)]
struct LogSoftmaxNode;

impl<B: Kernels> Backward<B, 1> for LogSoftmaxNode {
    /// The input, its log-sum-exp, and along which dimension.
    type State = (FloatTensor<B>, FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, dim) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::log_softmax_in_f32_backward(x, log_sum_exp, grad, dim)
        });
    }
}

#[derive(Debug)]
struct LogSoftmaxAt;

impl<B: Kernels> Backward<B, 1> for LogSoftmaxAt {
    /// The input, its log-sum-exp, and the targets.
    type State = (FloatTensor<B>, FloatTensor<B>, IntTensor<B>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, log_sum_exp, targets) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::log_softmax_at_backward(x, log_sum_exp, targets, grad)
        });
    }
}

/// Two parents, or three with a β.
#[derive(Debug)]
struct LayerNormNode;

/// What the backward pass of a layer norm needs.
#[derive(Clone, Debug)]
struct Saved<B: Kernels> {
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
}

impl<B: Kernels, const N: usize> Backward<B, N> for LayerNormNode {
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
            B::layer_norm_in_f32_backward(x, gamma, mean, inverse_std, grad);
        let gradients = [x, row::cast::<B>(gamma, dtype), row::cast::<B>(beta, dtype)];
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
