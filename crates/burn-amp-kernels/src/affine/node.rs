use std::{any::TypeId, mem, sync::Arc};

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer,
        retro_forward::RetroForward,
        state::BackwardStates,
        strategy::{CheckpointStrategy, NoCheckpointing},
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{
    DType, FloatDType, TensorMetadata,
    ops::{ActivationOps, FloatTensorOps},
    tensor::FloatTensor,
};

use super::{
    Affine, Group, SMALL, Sums,
    joint::{contribute, placeholder},
    reference::summed,
    term::{Chain, Term},
};
use crate::{AmpBackend, made, sign_mask::SignMask, widen::cast};

/// Computes the chain as one node of the graph, which keeps `x` as it is stored and the factors; of a sum with `plus` and its
/// ReLU, one bit per element.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    affine: Affine<Autodiff<B, C>>,
    plus: Option<FloatTensor<Autodiff<B, C>>>,
    dtype: FloatDType,
) -> FloatTensor<Autodiff<B, C>> {
    if plus.is_some() && TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
        return op_by_op::<B, C>(x, affine, plus, dtype);
    }
    let mut values = affine.with_factors(
        affine
            .factors()
            .map(|factor| factor.map(|factor| factor.primitive.clone())),
    );
    let summand = plus.as_ref().map(|plus| plus.primitive.clone());
    let output = B::mixed_affine(x.primitive.clone(), values.clone(), summand, dtype);
    let mut parents = vec![(Role::X, x.clone())];
    let roles = [Role::Before, Role::Scale, Role::Rescale, Role::After];
    for (role, factor) in roles.into_iter().zip(affine.factors()) {
        parents.extend(factor.map(|factor| (role, factor.clone())));
    }
    let is_sum = plus.is_some();
    parents.extend(plus.map(|plus| (Role::Plus, plus)));
    parents.retain(|(_, tensor)| tensor.is_tracked());
    let has_mask = is_sum && mem::take(&mut values.relu);
    let node = Node::<B, C> {
        x,
        values,
        dtype,
        parents,
        is_sum,
        has_mask,
    };
    match node.parents.len() {
        0 => crate::autodiff::untracked::<B, C>(&node.x, output),
        1 => node.make::<1>(output),
        2 => node.make::<2>(output),
        3 => node.make::<3>(output),
        4 => node.make::<4>(output),
        5 => node.make::<5>(output),
        _ => node.make::<6>(output),
    }
}

/// Computes a sum with a chain by ops of their own, which Burn's gradient checkpointing can compute again.
fn op_by_op<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    mut affine: Affine<Autodiff<B, C>>,
    plus: Option<FloatTensor<Autodiff<B, C>>>,
    dtype: FloatDType,
) -> FloatTensor<Autodiff<B, C>> {
    let relu = mem::take(&mut affine.relu);
    let mut sum = recorded::<B, C>(x, affine, None, FloatDType::F32);
    if let Some(plus) = plus {
        sum = Autodiff::<B, C>::float_add(sum, cast::<Autodiff<B, C>>(plus, DType::F32));
    }
    if relu {
        sum = Autodiff::<B, C>::relu(sum);
    }
    cast::<Autodiff<B, C>>(sum, dtype.into())
}

/// What a parent of the node is to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    X,
    Before,
    Scale,
    Rescale,
    After,
    /// A tensor that was added.
    Plus,
}

/// The node before it is made.
struct Node<B: AmpBackend, C: CheckpointStrategy> {
    x: FloatTensor<Autodiff<B, C>>,
    values: Affine<B>,
    dtype: FloatDType,
    parents: Vec<(Role, FloatTensor<Autodiff<B, C>>)>,
    /// Whether a tensor was added to the chain.
    is_sum: bool,
    /// Whether the gradient passes a mask, and not the chain's ReLU.
    has_mask: bool,
}

impl<B: AmpBackend, C: CheckpointStrategy> Node<B, C> {
    /// Without a ReLU and gradients of factors, the backward pass does not read `x`: then the graph keeps nothing of it.
    fn reads_x(&self) -> bool {
        let is_factor = |role| !matches!(role, Role::X | Role::Plus);
        self.values.relu || self.parents.iter().any(|(role, _)| is_factor(*role))
    }

    fn make<const N: usize>(self, output: FloatTensor<B>) -> FloatTensor<Autodiff<B, C>> {
        let reads_x = self.reads_x();
        let prep = AffineNode.prepare::<C>(std::array::from_fn::<_, N, _>(|i| {
            self.parents[i].1.node.clone()
        }));
        // The graph would keep what was added to compute a sum again.
        let prep = if reads_x && !self.is_sum {
            let parents = self.parents.iter().map(|(_, parent)| parent);
            let again = Again {
                x: Kept::of::<C>(&self.x),
                values: self.values.clone(),
                dtype: self.dtype,
                parents: parents.clone().map(|parent| parent.node.id).collect(),
            };
            prep.memory_bound().retro_forward(again).parents(parents)
        } else {
            prep.compute_bound()
        };
        match prep.stateful() {
            OpsKind::Tracked(mut prep) => {
                let mask = self.has_mask.then(|| {
                    made::mask(match reads_x {
                        true => B::not_positive_as(output.clone(), &self.x.primitive),
                        false => B::not_positive(output.clone()),
                    })
                });
                let x = reads_x.then(|| {
                    if self.x.is_tracked() {
                        Kept::Node(prep.checkpoint(&self.x))
                    } else {
                        Kept::Values(self.x.primitive)
                    }
                });
                let roles = self.parents.iter().map(|(role, _)| *role).collect();
                let plus = self.parents.iter().find(|(role, _)| *role == Role::Plus);
                let saved = Saved {
                    x,
                    values: self.values,
                    roles,
                    mask,
                    of_plus: plus.map_or(DType::F32, |(_, plus)| plus.dtype()),
                };
                prep.finish(saved, output)
            }
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }
}

/// A tensor that the node needs again.
#[derive(Clone, Debug)]
pub(super) enum Kept<B: AmpBackend> {
    /// The result of a node.
    Node(NodeId),
    /// A tensor in no graph.
    Values(FloatTensor<B>),
}

impl<B: AmpBackend> Kept<B> {
    /// Returns the values in the backward pass.
    pub(super) fn values(self, checkpointer: &mut Checkpointer) -> FloatTensor<B> {
        match self {
            Self::Node(id) => checkpointer.retrieve_node_output(id),
            Self::Values(values) => values,
        }
    }

    fn of<C: CheckpointStrategy>(tensor: &FloatTensor<Autodiff<B, C>>) -> Self {
        if tensor.is_tracked() {
            Self::Node(tensor.node.id)
        } else {
            Self::Values(tensor.primitive.clone())
        }
    }
}

#[derive(Debug)]
struct AffineNode;

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    x: Option<Kept<B>>,
    values: Affine<B>,
    roles: Arc<[Role]>,
    /// Where no gradient passes.
    mask: Option<SignMask<B>>,
    /// The dtype of what was added.
    of_plus: DType,
}

impl<B: AmpBackend, const N: usize> Backward<B, N> for AffineNode {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let Saved {
            x,
            values,
            roles,
            mask,
            of_plus,
        } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        // Only the shape is read of what stands for an `x` that is not needed.
        let (x, grad) = match (x, mask) {
            (Some(x), mask) => {
                let x = x.values(checkpointer);
                let grad = match mask {
                    Some(mask) => B::zeroed_as(grad, mask, &x),
                    None => B::in_order_of(grad, &x),
                };
                (x, grad)
            }
            (None, Some(mask)) => {
                let grad = B::zeroed(grad, mask);
                (grad.clone(), grad)
            }
            (None, None) => (grad.clone(), grad),
        };
        let is_wanted = |role| roles.contains(&role);
        let after_is_first = values.rescale.is_none();
        let of_group = |group, wanted: bool| {
            wanted.then(|| B::mixed_affine_sums(x.clone(), values.clone(), grad.clone(), group))
        };
        let wants_after = is_wanted(Role::After);
        let wants_first =
            is_wanted(Role::Before) || is_wanted(Role::Scale) || after_is_first && wants_after;
        let wants_second = is_wanted(Role::Rescale) || !after_is_first && wants_after;
        let [first, second] = if wants_first && wants_second && is_one_sum(&values, &grad) {
            of_group(Group::All, true)
                .map_or([None, None], |sums| both_groups(sums, &values).map(Some))
        } else {
            [
                of_group(Group::First, wants_first),
                of_group(Group::Second, wants_second),
            ]
        };
        let of = |sums: &Option<Sums<FloatTensor<B>>>| {
            sums.clone()
                .expect("the sums of a wanted group are computed")
        };
        for (role, parent) in roles.iter().zip(ops.parents) {
            let Some(parent) = parent else { continue };
            let (gradient, factor) = match role {
                Role::X => {
                    let chain = Chain {
                        x: x.clone(),
                        affine: values.clone(),
                        grad: grad.clone(),
                    };
                    let mut at = placeholder::<B>(&B::float_device(&grad));
                    at.node = parent;
                    contribute::<B>(Term::Chain(chain), at, grads);
                    continue;
                }
                Role::Plus => {
                    grads.register::<B>(parent.id, cast::<B>(grad.clone(), of_plus));
                    continue;
                }
                Role::Before => {
                    let sum = of(&first).of_gradient;
                    (values.scaled(sum), &values.before)
                }
                // The derivative of `1 / scale` is `-1 / scale²`.
                Role::Scale if values.divides => {
                    let twice = values.scaled(values.scaled(of(&first).of_product));
                    (B::float_neg(twice), &values.scale)
                }
                Role::Scale => (of(&first).of_product, &values.scale),
                Role::Rescale => (of(&second).of_product, &values.rescale),
                Role::After if after_is_first => (of(&first).of_gradient, &values.after),
                Role::After => (of(&second).of_gradient, &values.after),
            };
            let factor = factor.as_ref().expect("a parent is a factor");
            grads.register::<B>(parent.id, summed::<B>(gradient, &factor.shape()));
        }
    }
}

/// Whether the sums of both groups are made of sums over the same few dimensions, as those of a batch norm: one pass over
/// the gradient gives all of them.
fn is_one_sum<B: AmpBackend>(values: &Affine<B>, grad: &FloatTensor<B>) -> bool {
    let kept = values.kept(Group::All);
    kept.is_some_and(|kept| kept.num_elements() * SMALL <= grad.shape().num_elements())
}

/// Makes the sums of both groups from those of [`Group::All`].
fn both_groups<B: AmpBackend>(
    all: Sums<FloatTensor<B>>,
    values: &Affine<B>,
) -> [Sums<FloatTensor<B>>; 2] {
    let Sums {
        of_gradient,
        of_product,
    } = all;
    let first = Sums {
        of_gradient: values.rescaled(of_gradient.clone()),
        of_product: values.rescaled(of_product.clone()),
    };
    let second = Sums {
        of_gradient,
        of_product: values.scaled(of_product),
    };
    [first, second]
}

/// Computes the chain again from its operands.
#[derive(Debug)]
struct Again<B: AmpBackend> {
    x: Kept<B>,
    values: Affine<B>,
    dtype: FloatDType,
    parents: Vec<NodeId>,
}

impl<B: AmpBackend> RetroForward for Again<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        // Every parent counts as read, also the factors, whose values are here.
        let read: Vec<_> = self
            .parents
            .iter()
            .map(|parent| states.get_state::<FloatTensor<B>>(parent))
            .collect();
        let x = match &self.x {
            Kept::Node(_) => read[0].clone(),
            Kept::Values(x) => x.clone(),
        };
        let output = B::mixed_affine(x, self.values.clone(), None, self.dtype);
        states.save(out, output);
    }
}
