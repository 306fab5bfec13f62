//! One node of Burn's graph for any op. An op says what it keeps, and how gradients come from that.
//!
//! The node holds the operands that its backward pass reads: a list of its own in Burn's registry of them takes a hundred bytes
//! more. Those that are computed again stay there, since only the registry can.

use std::{fmt, marker::PhantomData};

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{Backend, tensor::FloatTensor};

use super::{
    saved::{InEightBits, SavedTensor, is_recomputed},
    stop, values,
};
use crate::{
    AmpBackend,
    kernel::{Graph, Kernel},
    names::{node_of, recomputes},
};

/// A float tensor of Burn's `Autodiff`.
pub(crate) type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// What an op keeps for its backward pass, besides the operands that it reads.
pub(crate) trait Node<B: AmpBackend>: Clone + fmt::Debug + Send + 'static {
    /// Registers the gradients of the operands.
    fn backward<const N: usize>(self, pass: Pass<'_, B, N>);
}

/// A node in a backward pass.
pub(crate) struct Pass<'a, B: Backend, const N: usize> {
    /// The node, and those of the operands that are wanted.
    pub ops: Ops<(), N>,
    /// The gradients of the pass.
    pub grads: &'a mut Gradients,
    read: [Option<Saved<B>>; N],
    checkpointer: &'a mut Checkpointer,
    backend: PhantomData<B>,
}

impl<B: AmpBackend, const N: usize> Pass<'_, B, N> {
    /// Takes the gradient of the result.
    pub(crate) fn gradient(&mut self) -> FloatTensor<B> {
        self.grads.consume::<B>(&self.ops.node)
    }

    /// Takes the gradient of the result, if there is one. Gradients are found by a tensor, and `any` will do.
    pub(crate) fn gradient_if_any(&mut self, any: FloatTensor<B>) -> Option<FloatTensor<B>> {
        let mut result = FloatTensor::<Autodiff<B>>::new(any);
        result.node = self.ops.node.clone();
        self.grads.remove::<B>(&result)
    }

    /// Takes the gradient that an operand has so far, if there is one. Gradients are found by a tensor, and `any` will do.
    pub(crate) fn known(&mut self, at: usize, any: FloatTensor<B>) -> Option<FloatTensor<B>> {
        let mut operand = FloatTensor::<Autodiff<B>>::new(any);
        operand.node = self.ops.parents.get(at)?.clone()?;
        self.grads.remove::<B>(&operand)
    }

    /// Returns an operand; `None` if the node does not read it.
    pub(crate) fn operand(&mut self, at: usize) -> Option<FloatTensor<B>> {
        Some(match self.read[at].take()? {
            Saved::AtNode(node) => self.checkpointer.retrieve_node_output(node),
            Saved::Here(operand) => operand.values(),
        })
    }

    /// Returns the operands of a node that reads two and perhaps a third one.
    pub(crate) fn all_operands(&mut self) -> ([FloatTensor<B>; 2], Option<FloatTensor<B>>) {
        let third = (N > 2).then(|| self.operand(2)).flatten();
        let operands = [0, 1].map(|at| self.operand(at).expect("the node reads all operands"));
        (operands, third)
    }

    /// Returns the node of an operand; `None` if there is no such operand, or its gradient is not wanted.
    pub(crate) fn parent(&self, at: usize) -> Option<NodeId> {
        Some(self.ops.parents.get(at)?.as_ref()?.id)
    }

    /// Registers the gradient of an operand if it is wanted.
    pub(crate) fn register(&mut self, at: usize, gradient: FloatTensor<B>) {
        if let Some(parent) = self.parent(at) {
            self.grads.register::<B>(parent, gradient);
        }
    }
}

/// The node of an op whose result is not computed yet.
pub(crate) struct Recording<B: AmpBackend, C: CheckpointStrategy, O: Node<B>, const N: usize> {
    kind: OpsKind<NodeStep<B, O>, B, SavedState<B, O, N>, C, N>,
    read: [Option<Saved<B>>; N],
}

impl<B: AmpBackend, C: CheckpointStrategy, O: Node<B>, const N: usize> Recording<B, C, O, N> {
    /// Begins the node of an op that is not computed again. It keeps the operands that the backward pass `reads`, or has them
    /// computed again.
    pub(crate) fn new(operands: [&Tracked<B, C>; N], reads: impl Fn(usize) -> bool) -> Self {
        let nodes = operands.map(|operand| node_of!(operand));
        let prep = NodeStep::<B, O>(PhantomData).prepare::<C>(nodes);
        Self::of(prep.compute_bound().stateful(), operands, reads)
    }

    /// Begins the node of an op that Burn's gradient checkpointing computes `again` from all its operands.
    pub(crate) fn computed_again(
        operands: [&Tracked<B, C>; N],
        reads: impl Fn(usize) -> bool,
        again: impl Fn([FloatTensor<B>; N]) -> FloatTensor<B> + Send + 'static,
    ) -> Self {
        let kept: [_; N] = match recomputes::<C>() {
            true => std::array::from_fn(|at| InEightBits::of(operands[at])),
            false => [const { None }; N],
        };
        let stops: [_; N] =
            std::array::from_fn(|at| kept[at].as_ref().map(|_| stop::at::<B>(operands[at])));
        let parents: [&Tracked<B, C>; N] =
            std::array::from_fn(|at| stops[at].as_ref().unwrap_or(operands[at]));
        let again = Again {
            operands: std::array::from_fn(|at| match &kept[at] {
                Some(bits) => Saved::Here(Box::new(SavedTensor::InEightBits(bits.clone()))),
                None => Saved::AtNode(operands[at].node.id),
            }),
            compute: again,
        };
        let nodes = parents.map(|operand| node_of!(operand));
        let prep = NodeStep::<B, O>(PhantomData).prepare::<C>(nodes);
        let prep = prep.memory_bound().retro_forward(again).parents(parents);
        Self::of(prep.stateful(), operands, reads)
    }

    fn of(
        mut kind: OpsKind<NodeStep<B, O>, B, SavedState<B, O, N>, C, N>,
        operands: [&Tracked<B, C>; N],
        reads: impl Fn(usize) -> bool,
    ) -> Self {
        let read = std::array::from_fn(|at| match &mut kind {
            OpsKind::Tracked(prep) => reads(at).then(|| match InEightBits::of(operands[at]) {
                Some(bits) => Saved::Here(Box::new(SavedTensor::InEightBits(bits))),
                None if is_recomputed::<B>(operands[at]) => {
                    Saved::AtNode(prep.checkpoint(operands[at]))
                }
                None => {
                    let values = operands[at].primitive.clone();
                    Saved::Here(Box::new(SavedTensor::Whole(values)))
                }
            }),
            OpsKind::UnTracked(_) => None,
        });
        Self { kind, read }
    }

    /// Makes the node. If it is tracked it keeps what `keep` returns for the result.
    pub(crate) fn finish(
        self,
        result: FloatTensor<B>,
        keep: impl FnOnce(&FloatTensor<B>) -> O,
    ) -> Tracked<B, C> {
        match self.kind {
            OpsKind::Tracked(prep) => {
                let op = keep(&result);
                let read = self.read;
                prep.finish(SavedState { op, read }, result)
            }
            OpsKind::UnTracked(_) => untracked::<B, C>(result),
        }
    }
}

/// The most operands of a node that [`record`] makes.
pub(crate) const MOST_OPERANDS: usize = 16;

/// Evaluates an expression for the length of a list, at most [`MOST_OPERANDS`]. A macro, because the number of a node's
/// parents is part of its type.
macro_rules! by_length {
    ($list:ident, $($length:literal)*; $N:ident => $then:expr) => {
        match $list.len() {
            $($length => {
                const $N: usize = $length;
                $then
            })*
            length => unreachable!("a node has no list of {length} operands"),
        }
    };
}

pub(crate) use by_length;

/// Makes a node for a list of operands, none of which the backward pass reads.
pub(crate) fn record<B: AmpBackend, C: CheckpointStrategy, O: Node<B>>(
    operands: &[&Tracked<B, C>],
    result: FloatTensor<B>,
    keep: impl FnOnce(&FloatTensor<B>) -> O,
) -> Tracked<B, C> {
    by_length!(operands, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; N => {
        let operands = std::array::from_fn(|at| operands[at]);
        Recording::<B, C, O, N>::new(operands, |_| false).finish(result, keep)
    })
}

/// Computes an op of two operands and perhaps a third one, in a node that is the op itself and reads all of them.
pub(crate) fn record_with_all<B: AmpBackend, C: CheckpointStrategy, K: Kernel + Node<B>>(
    op: K,
    operands: Graph<B, C>,
) -> Graph<B, C> {
    let operands = operands.floats;
    let result = B::run(op.clone(), values::<B, C>(&operands).into()).one();
    [by_length!(operands, 2 3; N => {
        let operands = std::array::from_fn(|at| &operands[at]);
        Recording::<B, C, K, N>::new(operands, |_| true).finish(result, |_| op)
    })]
    .into()
}

/// Wraps a tensor that is in no graph. Burn's own ops enter such a result into its registry, with a graph of its own: two kilobytes.
pub(crate) fn untracked<B: Backend, C: CheckpointStrategy>(
    primitive: FloatTensor<B>,
) -> Tracked<B, C> {
    <Tracked<B, C>>::new(primitive)
}

#[derive(Debug)]
struct NodeStep<B, O>(PhantomData<fn() -> (B, O)>);

#[derive(Clone, Debug)]
struct SavedState<B: Backend, O, const N: usize> {
    op: O,
    /// The operands that the backward pass reads.
    read: [Option<Saved<B>>; N],
}

/// An operand that the backward pass reads.
#[derive(Clone, Debug)]
enum Saved<B: Backend> {
    /// The graph computes it again.
    AtNode(NodeId),
    /// Boxed, since most nodes have operands that they do not read.
    Here(Box<SavedTensor<B>>),
}

impl<B: AmpBackend, O: Node<B>, const N: usize> Backward<B, N> for NodeStep<B, O> {
    type State = SavedState<B, O, N>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let SavedState { op, read } = ops.state;
        op.backward(Pass {
            ops: Ops::new(ops.parents, ops.node, ()),
            grads,
            read,
            checkpointer,
            backend: PhantomData,
        });
    }
}

/// Computes an op again, for Burn's gradient checkpointing.
struct Again<B: Backend, F, const N: usize> {
    operands: [Saved<B>; N],
    compute: F,
}

impl<B: Backend, F, const N: usize> fmt::Debug for Again<B, F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Again").field(&self.operands).finish()
    }
}

impl<B, F, const N: usize> RetroForward for Again<B, F, N>
where
    B: AmpBackend,
    F: Fn([FloatTensor<B>; N]) -> FloatTensor<B> + Send + 'static,
{
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        // Every operand counts as read, also one that the op does without.
        let operands = std::array::from_fn(|at| match &self.operands[at] {
            Saved::AtNode(node) => states.get_state(node),
            Saved::Here(operand) => operand.clone().values(),
        });
        let output = (self.compute)(operands);
        states.save(out, output);
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
    use burn_backend::{AutodiffBackend, TensorData, ops::FloatTensorOps, read_sync};
    use burn_flex::Flex;

    use super::*;

    /// A product, which reads each operand for the gradient of the other one.
    #[derive(Clone, Debug)]
    struct Product;

    impl<B: AmpBackend> Node<B> for Product {
        fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
            let grad = pass.gradient();
            for at in 0..N {
                if let Some(other) = pass.operand(1 - at) {
                    pass.register(at, B::float_mul(grad.clone(), other));
                }
            }
        }
    }

    fn product<C: CheckpointStrategy>(
        lhs: &Tracked<Flex, C>,
        rhs: &Tracked<Flex, C>,
    ) -> Tracked<Flex, C> {
        let output = Flex::float_mul(lhs.primitive.clone(), rhs.primitive.clone());
        let operands = [lhs, rhs];
        let reads = |at: usize| operands[1 - at].is_tracked();
        let again = |[lhs, rhs]: [FloatTensor<Flex>; 2]| Flex::float_mul(lhs, rhs);
        Recording::<Flex, C, _, 2>::computed_again(operands, reads, again)
            .finish(output, |_| Product)
    }

    /// The value and the gradients of `(a · b) · a`, by the node or by Burn's product.
    fn values<C: CheckpointStrategy>(
        mul: impl Fn(&Tracked<Flex, C>, &Tracked<Flex, C>) -> Tracked<Flex, C>,
        tracked: [bool; 2],
    ) -> Vec<Option<Vec<f32>>> {
        type Graph<C> = Autodiff<Flex, C>;
        let numbers = [[1.5f32, -2.0, 0.25], [3.0, 0.5, -1.0]];
        let [a, b] = [0, 1].map(|at| {
            let tensor = Graph::<C>::float_from_data(numbers[at].into(), &Default::default());
            Graph::<C>::float_set_require_grad(tensor, tracked[at])
        });
        let y = mul(&mul(&a, &b), &a);
        let list = |tensor| {
            let data: TensorData = read_sync(Flex::float_into_data(tensor)).unwrap();
            data.to_vec::<f32>().unwrap()
        };
        let value = list(y.primitive.clone());
        let mut results = vec![Some(value)];
        if y.is_tracked() {
            let grads = Graph::<C>::backward(y);
            results.extend([a, b].map(|leaf| Graph::<C>::grad(&leaf, &grads).map(list)));
        }
        results
    }

    #[test]
    fn a_node_has_the_gradients_of_burns_op() {
        fn check<C: CheckpointStrategy>(tracked: [bool; 2]) {
            let burns = values::<C>(
                |lhs, rhs| Autodiff::<Flex, C>::float_mul(lhs.clone(), rhs.clone()),
                tracked,
            );
            assert_eq!(values::<C>(product::<C>, tracked), burns, "{tracked:?}");
        }
        for tracked in [[true, true], [true, false], [false, true], [false, false]] {
            check::<NoCheckpointing>(tracked);
            check::<BalancedCheckpointing>(tracked);
        }
    }
}
