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
    reference::{summed, terms},
    term::{self, Term},
};
use crate::{AmpBackend, made};

/// Computes a sum or a mean as one node of the graph. For squares it keeps `x` as it is stored, `before` and the sum or mean
/// of the values; for the values nothing.
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
        moment.mean,
    );
    made::float::<B>(&sum);
    let shape = x.shape();
    let node = Node::<B, C> {
        count: terms(&shape, &moment.kept),
        mean: moment.mean,
        shape,
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
    /// The number of terms of a sum.
    count: f64,
    mean: bool,
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
                    count: self.count,
                    mean: self.mean,
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
    /// The number of terms of a sum.
    count: f64,
    mean: bool,
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
    /// The sum of `x + before`, or the mean.
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
            count,
            mean,
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
            None if mean => {
                moments.of_sum = Some(B::float_div_scalar(grad.clone(), count.into()));
                Some(grad)
            }
            None => {
                moments.of_sum = Some(grad.clone());
                before_node
                    .is_some()
                    .then(|| B::float_mul_scalar(grad, count.into()))
            }
            Some(Squares { x, terms }) => {
                let Terms { before, sum } = terms;
                let twice = |grad| B::float_mul_scalar(grad, Scalar::from(2f32));
                let factor = match mean {
                    // Twice the gradient over the number.
                    true => B::float_div_scalar(grad.clone(), (count / 2.0).into()),
                    false => twice(grad.clone()),
                };
                moments.squares = Some(term::Squares {
                    x: x.values(checkpointer),
                    before: before.clone(),
                    factor: factor.clone(),
                });
                before.map(|before| {
                    let of_sums = B::float_mul(if mean { twice(grad) } else { factor }, sum);
                    summed::<B>(of_sums, &before.shape())
                })
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
