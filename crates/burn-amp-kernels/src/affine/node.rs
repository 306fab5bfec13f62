//! The node of a chain in a graph.

use std::{any::TypeId, mem, sync::Arc};

use burn_backend::ops::{ActivationOps, FloatTensorOps};

use super::{
    Affine, Group, SMALL, Sums,
    op::{self, ChainForward, in_order_of},
    reference::summed,
    sums::sums,
    term::{AffineTerm, ChainTerm},
};
use crate::{
    graph::{self, contribute},
    prelude::*,
    sign_mask::{self, SignMask},
};

/// Computes a chain of sums and products of a tensor and small factors, with an optional tensor added before the ReLU, rounded
/// to `dtype`.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    affine: Affine<B>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let (op, tensors) = ChainForward::of(x, affine, plus, dtype);
    B::run(RecordedChain(op), tensors).one()
}

/// A chain, which is a node in a graph.
#[derive(Clone, Debug)]
struct RecordedChain(ChainForward);

impl Kernel for RecordedChain {
    const NAME: &'static str = "burn_amp::affine_node";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        B::run(self.0.clone(), operands)
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let (x, affine, plus) = self.0.parts::<Autodiff<B, C>>(operands);
        [recorded::<B, C>(x, affine, plus, self.0.dtype)].into()
    }
}

/// Computes the chain as one node of the graph, which keeps `x` as it is stored and the factors; of a sum with `plus` and its
/// ReLU, one bit per element.
fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    affine: Affine<Autodiff<B, C>>,
    plus: Option<Tracked<B, C>>,
    dtype: FloatDType,
) -> Tracked<B, C> {
    if plus.is_some() && TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
        return op_by_op::<B, C>(x, affine, plus, dtype);
    }
    let factors = affine.factors();
    let factors = factors.map(|factor| factor.map(|factor| factor.primitive.clone()));
    let mut values = affine.with_factors(factors);
    let summand = plus.as_ref().map(|plus| plus.primitive.clone());
    let output = op::forward::<B>(x.primitive.clone(), values.clone(), summand, dtype);
    let is_sum = plus.is_some();
    let has_mask = is_sum && mem::take(&mut values.relu);
    let parents = parents::<B, C>(&x, &affine, plus);
    if parents.is_empty() {
        return graph::untracked::<B, C>(&x, output);
    }
    // Without a ReLU and gradients of factors, the backward pass does not read `x`: then the graph keeps nothing of it.
    let is_factor = |(role, _): &(Role, _)| matches!(role, Role::Factor(_));
    let reads_x = values.relu || parents.iter().any(is_factor);
    let plus = parents.iter().find(|(role, _)| *role == Role::Plus);
    let kept = Kept {
        x: (reads_x && !x.is_tracked()).then(|| x.primitive.clone()),
        values: values.clone(),
        roles: parents.iter().map(|(role, _)| *role).collect(),
        mask: None,
        of_plus: plus.map_or(DType::F32, |(_, plus)| plus.dtype()),
    };
    let keep = |output: &FloatTensor<B>| Kept {
        mask: has_mask.then(|| {
            sign_mask::kept(if reads_x {
                sign_mask::not_positive_as::<B>(output.clone(), &x.primitive)
            } else {
                sign_mask::not_positive::<B>(output.clone())
            })
        }),
        ..kept
    };
    // The first parent is `x`, if that is tracked.
    let is_read = |at| at == 0 && reads_x && x.is_tracked();
    let untracked = (!x.is_tracked()).then(|| x.primitive.clone());
    by_length!(parents, 1 2 3 4 5 6; N => {
        let operands = std::array::from_fn(|at| &parents[at].1);
        // The graph would keep what was added to compute a sum again.
        let node = if reads_x && !is_sum {
            let again = move |operands: [FloatTensor<B>; N]| {
                let x = untracked.clone().unwrap_or_else(|| operands[0].clone());
                op::forward::<B>(x, values.clone(), None, dtype)
            };
            Recording::<B, C, _, N>::computed_again(operands, is_read, again)
        } else {
            Recording::<B, C, _, N>::new(operands, is_read)
        };
        node.finish(output, keep)
    })
}

/// The operands that are tracked, each with its role.
fn parents<B: AmpBackend, C: CheckpointStrategy>(
    x: &Tracked<B, C>,
    affine: &Affine<Autodiff<B, C>>,
    plus: Option<Tracked<B, C>>,
) -> Vec<(Role, Tracked<B, C>)> {
    let mut parents = vec![(Role::X, x.clone())];
    for (role, factor) in FACTORS.into_iter().zip(affine.factors()) {
        parents.extend(factor.map(|factor| (Role::Factor(role), factor.clone())));
    }
    parents.extend(plus.map(|plus| (Role::Plus, plus)));
    parents.retain(|(_, tensor)| tensor.is_tracked());
    parents
}

/// Computes a sum with a chain by ops of their own, which Burn's gradient checkpointing can compute again.
fn op_by_op<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    mut affine: Affine<Autodiff<B, C>>,
    plus: Option<Tracked<B, C>>,
    dtype: FloatDType,
) -> Tracked<B, C> {
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
    Factor(Factor),
    /// A tensor that was added.
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    Before,
    Scale,
    Rescale,
    After,
}

/// In the order of [`Affine::factors`].
const FACTORS: [Factor; 4] = [
    Factor::Before,
    Factor::Scale,
    Factor::Rescale,
    Factor::After,
];

/// What a chain saves. Its node has the operands of its roles.
#[derive(Clone, Debug)]
struct Kept<B: AmpBackend> {
    /// The operand; `None` if the graph keeps it, or the backward pass does not read it.
    x: Option<FloatTensor<B>>,
    values: Affine<B>,
    roles: Arc<[Role]>,
    /// Where no gradient passes.
    mask: Option<SignMask<B>>,
    /// The dtype of what was added.
    of_plus: DType,
}

/// The sums of both groups of factors, as far as they are wanted.
type Groups<B> = [Option<Sums<FloatTensor<B>>>; 2];

impl<B: AmpBackend> Node<B> for Kept<B> {
    fn backward<const N: usize>(mut self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let x = self.x.take().or_else(|| pass.operand(0));
        // Only the shape is read of what stands for an `x` that is not needed.
        let (x, grad) = match (x, self.mask.take()) {
            (Some(x), Some(mask)) => (x.clone(), sign_mask::zeroed_as::<B>(grad, mask, &x)),
            (Some(x), None) => (x.clone(), in_order_of::<B>(grad, &x)),
            (None, Some(mask)) => {
                let grad = sign_mask::zeroed::<B>(grad, mask);
                (grad.clone(), grad)
            }
            (None, None) => (grad.clone(), grad),
        };
        let groups = self.groups(&x, &grad);
        for (at, role) in self.roles.iter().enumerate() {
            match role {
                Role::X => {
                    let chain = ChainTerm {
                        x: x.clone(),
                        affine: self.values.clone(),
                        grad: grad.clone(),
                    };
                    contribute(
                        AffineTerm::Chain(chain),
                        at,
                        &B::float_device(&grad),
                        &mut pass,
                    );
                }
                Role::Plus => pass.register(at, cast::<B>(grad.clone(), self.of_plus)),
                Role::Factor(factor) => pass.register(at, self.gradient(*factor, &groups)),
            }
        }
    }
}

impl<B: AmpBackend> Kept<B> {
    /// Computes the sums of which the gradients of the factors are made.
    fn groups(&self, x: &FloatTensor<B>, grad: &FloatTensor<B>) -> Groups<B> {
        let values = &self.values;
        let is_wanted = |factor| self.roles.contains(&Role::Factor(factor));
        let after_is_first = values.rescale.is_none();
        let of_group = |group| sums::<B>(x.clone(), values.clone(), grad.clone(), group);
        let wants_after = is_wanted(Factor::After);
        let wants_first =
            is_wanted(Factor::Before) || is_wanted(Factor::Scale) || after_is_first && wants_after;
        let wants_second = is_wanted(Factor::Rescale) || !after_is_first && wants_after;
        if wants_first && wants_second && is_one_sum(values, grad) {
            return both_groups(of_group(Group::All), values).map(Some);
        }
        [
            wants_first.then(|| of_group(Group::First)),
            wants_second.then(|| of_group(Group::Second)),
        ]
    }

    /// Makes the gradient of a factor from the sums.
    fn gradient(&self, factor: Factor, groups: &Groups<B>) -> FloatTensor<B> {
        let values = &self.values;
        let [first, second] = groups.each_ref().map(|sums| {
            move || {
                sums.clone()
                    .expect("the sums of a wanted group are computed")
            }
        });
        let (gradient, factor) = match factor {
            Factor::Before => (values.scaled(first().of_gradient), &values.before),
            // The derivative of `1 / scale` is `-1 / scale²`.
            Factor::Scale if values.divides => {
                let twice = values.scaled(values.scaled(first().of_product));
                (B::float_neg(twice), &values.scale)
            }
            Factor::Scale => (first().of_product, &values.scale),
            Factor::Rescale => (second().of_product, &values.rescale),
            Factor::After if values.rescale.is_none() => (first().of_gradient, &values.after),
            Factor::After => (second().of_gradient, &values.after),
        };
        let factor = factor.as_ref().expect("a parent is a factor");
        summed::<B>(gradient, &factor.shape())
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
