use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{Scalar, Shape, TensorMetadata, tensor::FloatTensor};

use super::{
    Moment, Moments,
    joint::{contribute, placeholder},
    node::Kept,
    reference::summed,
    term::{self, Term},
};
use crate::{AmpBackend, made};

/// Computes a sum as one node of the graph. For a sum of squares it keeps `x` as it is stored, `before` and the sum of the
/// values; for a sum of the values nothing.
pub(crate) fn recorded_moment<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    moment: Moment<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let before = moment.before.as_ref();
    let values = before.map(|before| before.primitive.clone());
    let Moments { sum, squares } = B::mixed_moments(
        x.primitive.clone(),
        moment.grid.clone(),
        values.clone(),
        moment.kept.clone(),
    );
    made::float::<B>(&sum);
    let node = Node::<B, C> {
        shape: x.shape(),
        grid: moment.grid,
        x: x.clone(),
        terms: moment.squared.then(|| Terms {
            before: values,
            sum: sum.clone(),
        }),
        output: if moment.squared { squares } else { sum },
    };
    match before {
        Some(before) => node.make::<2>([&x, before]),
        None => node.make::<1>([&x]),
    }
}

/// The node before it is made.
struct Node<B: AmpBackend, C: CheckpointStrategy> {
    shape: Shape,
    grid: Shape,
    x: FloatTensor<Autodiff<B, C>>,
    /// For a sum of squares.
    terms: Option<Terms<B>>,
    output: FloatTensor<B>,
}

impl<B: AmpBackend, C: CheckpointStrategy> Node<B, C> {
    fn make<const N: usize>(
        self,
        parents: [&FloatTensor<Autodiff<B, C>>; N],
    ) -> FloatTensor<Autodiff<B, C>> {
        let nodes = parents.map(|parent| parent.node.clone());
        match SumNode.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let squares = self.terms.map(|terms| Squares {
                    x: if self.x.is_tracked() {
                        Kept::Node(prep.checkpoint(&self.x))
                    } else {
                        Kept::Values(self.x.primitive)
                    },
                    terms,
                });
                let saved = Saved {
                    shape: self.shape,
                    grid: self.grid,
                    squares,
                };
                prep.finish(saved, self.output)
            }
            OpsKind::UnTracked(prep) => prep.finish(self.output),
        }
    }
}

/// Has the parent `x`, and `before` if there is one.
#[derive(Debug)]
struct SumNode;

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    /// The shape of `x`.
    shape: Shape,
    grid: Shape,
    squares: Option<Squares<B>>,
}

/// What the gradient of a sum of squares needs.
#[derive(Clone, Debug)]
struct Squares<B: AmpBackend> {
    x: Kept<B>,
    terms: Terms<B>,
}

#[derive(Clone, Debug)]
struct Terms<B: AmpBackend> {
    before: Option<FloatTensor<B>>,
    /// The sum of `x + before`.
    sum: FloatTensor<B>,
}

impl<B: AmpBackend, const N: usize> Backward<B, N> for SumNode {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let Saved {
            shape,
            grid,
            squares,
        } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let mut parents = ops.parents.into_iter();
        let (x_node, before_node) = (parents.next().flatten(), parents.next().flatten());
        let mut at = placeholder::<B>(&B::float_device(&grad));
        let mut moments = term::Moments {
            shape,
            grid,
            squares: None,
            of_sum: None,
        };
        let of_before = match squares {
            None => {
                moments.of_sum = Some(grad.clone());
                Some(grad)
            }
            Some(Squares { x, terms }) => {
                let Terms { before, sum } = terms;
                let factor = B::float_mul_scalar(grad, Scalar::from(2f32));
                moments.squares = Some(term::Squares {
                    x: x.values(checkpointer),
                    before: before.clone(),
                    factor: factor.clone(),
                });
                before.map(|before| summed::<B>(B::float_mul(factor, sum), &before.shape()))
            }
        };
        if let (Some(node), Some(gradient)) = (before_node, of_before) {
            grads.register::<B>(node.id, gradient);
        }
        if let Some(node) = x_node {
            at.node = node;
            contribute::<B>(Term::Moments(moments), at, grads);
        }
    }
}
