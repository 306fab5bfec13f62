use std::marker::PhantomData;

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{FloatDType, TensorMetadata, tensor::FloatTensor};

use super::{LayerNorm, LayerNormGradients};
use crate::{AmpBackend, affine::Joint, flushed::seen, made, widen::cast};

/// The op in a graph: the output has a node, the rest of the result has none.
pub(crate) struct Recorded<B: AmpBackend, C: CheckpointStrategy> {
    pub output: FloatTensor<Autodiff<B, C>>,
    pub copy: Option<FloatTensor<B>>,
    pub mean: FloatTensor<B>,
    pub inverse_std: FloatTensor<B>,
}

/// Computes the op as one node of the graph, which keeps the operand as it is stored and two numbers per row. Its backward
/// pass reads the gradient of a copy of the output, if that is the only one, in the dtype of the copy.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    gamma: FloatTensor<Autodiff<B, C>>,
    beta: Option<FloatTensor<Autodiff<B, C>>>,
    epsilon: f64,
    copy: Option<FloatDType>,
) -> Recorded<B, C> {
    let LayerNorm {
        output,
        copy,
        mean,
        inverse_std,
    } = B::mixed_layer_norm(
        x.primitive.clone(),
        gamma.primitive.clone(),
        beta.as_ref().map(|beta| beta.primitive.clone()),
        epsilon,
        copy,
    );
    for other in copy.iter().chain([&mean, &inverse_std]) {
        made::float::<B>(other);
    }
    let joint = Joint::new(&output);
    let again = Recompute::<B> {
        x: x.node.id,
        gamma: gamma.node.id,
        beta: beta.as_ref().map(|beta| beta.node.id),
        epsilon,
        backend: PhantomData,
    };
    let saved = |x| Saved::<B> {
        x,
        gamma: gamma.primitive.clone(),
        mean: mean.clone(),
        inverse_std: inverse_std.clone(),
        joint: joint.clone(),
    };
    let output = match &beta {
        Some(beta) => match LayerNormNode
            .prepare::<C>([x.node.clone(), gamma.node.clone(), beta.node.clone()])
            .memory_bound()
            .retro_forward(again)
            .parents([&x, &gamma, beta])
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let x = prep.checkpoint(&x);
                prep.finish(saved(x), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(output),
        },
        None => match LayerNormNode
            .prepare::<C>([x.node.clone(), gamma.node.clone()])
            .memory_bound()
            .retro_forward(again)
            .parents([&x, &gamma])
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let x = prep.checkpoint(&x);
                prep.finish(saved(x), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(output),
        },
    };
    if output.is_tracked() {
        joint.waits_at(&output);
    }
    Recorded {
        output,
        copy,
        mean,
        inverse_std,
    }
}

/// Has two parents, or three with a β.
#[derive(Debug)]
struct LayerNormNode;

/// What a layer norm saves for its backward pass.
#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    x: NodeId,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
    joint: Joint<B>,
}

impl<B: AmpBackend, const N: usize> Backward<B, N> for LayerNormNode {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let grad = ops.state.joint.gradient(&ops, grads);
        let Saved {
            x,
            gamma,
            mean,
            inverse_std,
            joint: _,
        } = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        let dtype = gamma.dtype();
        let LayerNormGradients { x, gamma, beta } =
            B::mixed_layer_norm_backward(x, gamma, mean, inverse_std, grad);
        let gradients = [x, cast::<B>(gamma, dtype), cast::<B>(beta, dtype)];
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, seen::<B>(gradient));
            }
        }
    }
}

/// Computes the op again from its operands, for Burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute<B> {
    x: NodeId,
    gamma: NodeId,
    beta: Option<NodeId>,
    epsilon: f64,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Recompute<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        let gamma = states.get_state::<FloatTensor<B>>(&self.gamma);
        let beta = self
            .beta
            .map(|beta| states.get_state::<FloatTensor<B>>(&beta));
        let LayerNorm { output, .. } = B::mixed_layer_norm(x, gamma, beta, self.epsilon, None);
        states.save(out_node, output);
    }
}
