use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{FloatDType, TensorMetadata, tensor::FloatTensor};

use super::{LayerNorm, LayerNormGradients};
use crate::{
    AmpBackend,
    affine::Joint,
    flushed::seen,
    graph::{Node, Pass, Recording, Tracked, by_length},
    made,
    widen::cast,
};

/// The op in a graph: the output has a node, the rest of the result has none.
pub(crate) struct Recorded<B: AmpBackend, C: CheckpointStrategy> {
    pub output: Tracked<B, C>,
    pub copy: Option<FloatTensor<B>>,
    pub mean: FloatTensor<B>,
    pub inverse_std: FloatTensor<B>,
}

/// Computes the op as one node of the graph, which keeps the operand as it is stored and two numbers per row. Its backward
/// pass reads the gradient of a copy of the output, if that is the only one, in the dtype of the copy.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    gamma: Tracked<B, C>,
    beta: Option<Tracked<B, C>>,
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
    let saved = Saved::<B> {
        gamma: gamma.primitive.clone(),
        mean: mean.clone(),
        inverse_std: inverse_std.clone(),
        joint: joint.clone(),
    };
    let operands: Vec<_> = [&x, &gamma].into_iter().chain(&beta).collect();
    let output = by_length!(operands, 2 3; N => {
        let operands = std::array::from_fn(|at| operands[at]);
        let again = move |operands| again::<B, N>(operands, epsilon);
        let node = Recording::<B, C, _, N>::computed_again(operands, |at| at == 0, again);
        node.finish(output, |_| saved)
    });
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

/// Computes the output again from `x`, γ, and β if there is one.
fn again<B: AmpBackend, const N: usize>(
    operands: [FloatTensor<B>; N],
    epsilon: f64,
) -> FloatTensor<B> {
    let mut operands = operands.into_iter();
    let mut next = || operands.next();
    let (x, gamma) = next().zip(next()).expect("a layer norm has two operands");
    B::mixed_layer_norm(x, gamma, next(), epsilon, None).output
}

/// What a layer norm saves for its backward pass, besides `x`.
#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
    joint: Joint<B>,
}

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = self.joint.gradient(&mut pass);
        let Self {
            gamma,
            mean,
            inverse_std,
            joint: _,
        } = self;
        let x = pass.operand(0).expect("the operand is read");
        let dtype = gamma.dtype();
        let LayerNormGradients { x, gamma, beta } =
            B::mixed_layer_norm_backward(x, gamma, mean, inverse_std, grad);
        let gradients = [x, cast::<B>(gamma, dtype), cast::<B>(beta, dtype)];
        for (at, gradient) in gradients.into_iter().enumerate() {
            if pass.parent(at).is_some() {
                pass.register(at, seen::<B>(gradient));
            }
        }
    }
}
