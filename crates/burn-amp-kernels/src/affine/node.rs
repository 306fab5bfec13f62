//! The node of a chain in a graph.

use std::mem;

use burn_backend::ops::FloatTensorOps;

use super::{
    Affine, End, Group, Rest, SMALL, Sums,
    joint::{Joint, contribute, pass_to_joint},
    op::{forward, in_order_of, with_mask},
    reference::summed,
    sums::sums,
    term::{ChainTerm, Term},
};
use crate::{
    graph::saved::is_offered,
    prelude::*,
    sign_mask::{self, SignMask},
};

/// Computes the chain as one node of the graph, which keeps `x` as it is stored and the factors; of a sum with `plus` and its
/// ReLU, one bit per element.
pub(super) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    affine: Affine<Tracked<B, C>>,
    plus: Option<Tracked<B, C>>,
    dtype: FloatDType,
) -> Tracked<B, C> {
    // Eight bits of `x` do not tell on which side of a bound the chain is.
    let is_rounded = is_offered::<B>(&x);
    let is_leaky = matches!(affine.end, End::LeakyRelu(_));
    if plus.is_some() && recomputes::<C>() || is_leaky && is_rounded {
        return op_by_op::<B, C>(x, affine, plus, dtype);
    }
    let mut values = affine.map(|factor| factor.primitive.clone());
    let summand = plus.as_ref().map(|plus| plus.primitive.clone());
    let is_sum = plus.is_some();
    let parents = parents::<B, C>(&x, &affine, plus);
    let has_mask = match values.end {
        End::Relu => is_sum || is_rounded,
        End::Clamp(_) => is_rounded,
        End::Identity | End::LeakyRelu(_) | End::Sigmoid | End::Silu => false,
    };
    // Without an end, and gradients of what multiplies `x`, the backward pass does not read `x`: then the graph keeps nothing
    // of it.
    let multiplies = |(role, _): &(Role, _)| matches!(role, Role::Scale | Role::Rescale);
    let end_reads_x = !has_mask && values.end != End::Identity;
    let reads_x = end_reads_x || parents.iter().any(multiplies);
    let mask_lies_like_x = reads_x && !is_rounded;
    let (operand, chain) = (x.primitive.clone(), values.clone());
    // The kernel that computes a residual block's ReLU knows the mask.
    let knows_mask = has_mask && mask_lies_like_x;
    let (output, mask) = if knows_mask {
        let (output, mask) = with_mask::<B>(operand, chain, summand, dtype);
        (output, Some(mask))
    } else {
        let output = forward::<B>(operand, chain, summand, dtype);
        (output, None)
    };
    let end = values.end;
    let again_values = values.clone();
    if has_mask {
        values.end = End::Identity;
    }
    if parents.is_empty() {
        return untracked::<B, C>(output);
    }
    let plus = parents.iter().find(|(role, _)| *role == Role::Plus);
    // The gradients of the readers of a ReLU come here one by one. The kernel that adds two of a residual block applies the mask.
    let is_shared = end == End::Relu && (is_sum || dtype != FloatDType::F32);
    let joint = is_shared.then(|| Joint::<B>::new(&output));
    let kept = Kept {
        x: (reads_x && !x.is_tracked()).then(|| x.primitive.clone()),
        values: values.clone(),
        roles: std::array::from_fn(|at| parents.get(at).map(|(role, _)| *role)),
        mask: None,
        joint: joint.clone(),
        mask_lies_like_x,
        of_plus: plus.map_or(DType::F32, |(_, plus)| plus.dtype()),
    };
    let keep = |output: &FloatTensor<B>| Kept {
        mask: has_mask.then(|| {
            let order = mask_lies_like_x.then_some(&x.primitive);
            let made = || sign_mask::not_positive::<B>(end.room::<B>(output.clone()), order);
            sign_mask::kept(mask.unwrap_or_else(made))
        }),
        ..kept
    };
    // The first parent is `x`, if that is tracked.
    let is_read = |at| at == 0 && reads_x && x.is_tracked();
    let own_x = (!x.is_tracked()).then(|| x.primitive.clone());
    let output = by_length!(parents, 1 2 3 4 5 6; N => {
        let operands = std::array::from_fn(|at| &parents[at].1);
        // The graph would keep what was added to compute a sum again. Burn's gradient checkpointing keeps `x` as it is stored, and not
        // the result, which is wider.
        let node = if (reads_x || recomputes::<C>()) && !is_sum {
            let again = move |operands: [FloatTensor<B>; N]| {
                let x = own_x.clone().unwrap_or_else(|| operands[0].clone());
                forward::<B>(x, again_values.clone(), None, dtype)
            };
            Recording::<B, C, _, N>::computed_again(operands, is_read, again)
        } else {
            Recording::<B, C, _, N>::new(operands, is_read)
        };
        node.finish(output, keep)
    });
    if let Some(joint) = joint {
        joint.waits_at(output.node.id);
    }
    output
}

/// The operands that are tracked, each with its role.
fn parents<B: AmpBackend, C: CheckpointStrategy>(
    x: &Tracked<B, C>,
    affine: &Affine<Tracked<B, C>>,
    plus: Option<Tracked<B, C>>,
) -> Vec<(Role, Tracked<B, C>)> {
    let mut parents = vec![(Role::X, x.clone())];
    for (role, factor) in FACTORS.into_iter().zip(affine.factors()) {
        parents.extend(factor.map(|factor| (role, factor.clone())));
    }
    parents.extend(plus.map(|plus| (Role::Plus, plus)));
    parents.retain(|(_, tensor)| tensor.is_tracked());
    parents
}

/// Computes a chain, its sum and its end by ops of their own: Burn's gradient checkpointing can compute them again, and eight bits of `x` do
/// for the chain alone.
fn op_by_op<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    mut affine: Affine<Tracked<B, C>>,
    plus: Option<Tracked<B, C>>,
    dtype: FloatDType,
) -> Tracked<B, C> {
    let end = mem::replace(&mut affine.end, End::Identity);
    let mut sum = recorded::<B, C>(x, affine, None, FloatDType::F32);
    if let Some(plus) = plus {
        sum = Autodiff::<B, C>::float_add(sum, cast_again::<B, C>(plus, DType::F32));
    }
    cast_again::<B, C>(end.of::<Autodiff<B, C>>(sum), dtype.into())
}

/// Casts a tensor. Burn's gradient checkpointing keeps the result of its own cast, and computes that of this one again.
fn cast_again<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    dtype: DType,
) -> Tracked<B, C> {
    if x.dtype() == dtype {
        return x;
    }
    let again = move |[x]: [FloatTensor<B>; 1]| cast::<B>(x, dtype);
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, again);
    let from = x.dtype();
    node.finish(cast::<B>(x.primitive, dtype), |_| CastFrom(from))
}

/// The dtype of the operand of a cast.
#[derive(Clone, Debug)]
struct CastFrom(DType);

impl<B: AmpBackend> Node<B> for CastFrom {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let gradient = pass.gradient();
        pass.register(0, cast::<B>(gradient, self.0));
    }
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

/// In the order of [`Affine::factors`].
const FACTORS: [Role; 4] = [Role::Before, Role::Scale, Role::Rescale, Role::After];

/// What a chain saves. Its node has the operands of its roles.
#[derive(Clone, Debug)]
struct Kept<B: AmpBackend> {
    /// The operand; `None` if the graph keeps it, or the backward pass does not read it.
    x: Option<FloatTensor<B>>,
    values: Affine<FloatTensor<B>>,
    /// In the order of the node's parents, of which each has another role.
    roles: [Option<Role>; 6],
    /// Where no gradient passes.
    mask: Option<SignMask<B>>,
    /// The gradients of the readers, if they wait.
    joint: Option<Joint<B>>,
    /// Whether the mask lies in memory as `x` does: eight bits that another node packed may lie in another order.
    mask_lies_like_x: bool,
    /// The dtype of what was added.
    of_plus: DType,
}

/// The sums of both groups of factors, as far as they are wanted. If the chain divides, the products of the first group are
/// divided once: the derivative of `1 / scale` is `-1 / scale²`.
type Groups<B> = [Option<Sums<FloatTensor<B>>>; 2];

impl<B: AmpBackend> Node<B> for Kept<B> {
    fn backward<const N: usize>(mut self, mut pass: Pass<'_, B, N>) {
        let x = self.x.take().or_else(|| pass.operand(0));
        let order = x.as_ref().filter(|_| self.mask_lies_like_x);
        let grad = match (self.mask.take(), self.joint.take(), &x) {
            (Some(mask), Some(joint), _) => match joint.terms(&mut pass) {
                (grad, Some(last)) => {
                    sign_mask::sum_zeroed::<B>([grad, last], mask, order, joint.dtype())
                }
                (grad, None) => sign_mask::zeroed::<B>(grad, mask, order),
            },
            (Some(mask), None, _) => sign_mask::zeroed::<B>(pass.gradient(), mask, order),
            (None, joint, x) => {
                let grad = match joint {
                    Some(joint) => joint.gradient(&mut pass),
                    None => pass.gradient(),
                };
                match x {
                    Some(x) => in_order_of::<B>(grad, x),
                    None => grad,
                }
            }
        };
        // Only the shape is read of what stands for an `x` that is not needed.
        let x = x.unwrap_or_else(|| grad.clone());
        let mut sums = self.groups(&x, &grad).map(|sums| match sums {
            Some(sums) => [Some(sums.of_gradient), Some(sums.of_product)],
            None => [None, None],
        });
        for (at, role) in self.roles.iter().flatten().enumerate() {
            match role {
                Role::X => {
                    if !self.changes_gradient() && pass_to_joint(&grad, at, &pass) {
                        continue;
                    }
                    let term = Term::Chain(ChainTerm {
                        x: x.clone(),
                        affine: self.values.clone(),
                        grad: grad.clone(),
                        rest: Rest::plus(None),
                    });
                    contribute(term, at, &mut pass);
                }
                Role::Plus => pass.register(at, cast::<B>(grad.clone(), self.of_plus)),
                factor => {
                    let place = self.place(*factor);
                    let mut others = self.roles[at + 1..].iter().flatten();
                    let is_last = others.all(|other| self.place(*other) != place);
                    let sum = place.and_then(|(group, of)| match is_last {
                        true => sums[group][of].take(),
                        false => sums[group][of].clone(),
                    });
                    let sum = sum.expect("the sums of a wanted group are computed");
                    pass.register(at, self.gradient(*factor, sum));
                }
            }
        }
    }
}

impl<B: AmpBackend> Kept<B> {
    /// Whether the gradient of `x` is another one than that of the chain.
    fn changes_gradient(&self) -> bool {
        let Affine {
            scale,
            rescale,
            end,
            ..
        } = &self.values;
        scale.is_some() || rescale.is_some() || *end != End::Identity
    }

    /// Computes the sums of which the gradients of the factors are made.
    fn groups(&self, x: &FloatTensor<B>, grad: &FloatTensor<B>) -> Groups<B> {
        let values = &self.values;
        let is_wanted = |role| self.roles.contains(&Some(role));
        let after_is_first = values.rescale.is_none();
        let of_group = |group| sums::<B>(x.clone(), values.clone(), grad.clone(), group);
        let wants_after = is_wanted(Role::After);
        let wants_first =
            is_wanted(Role::Before) || is_wanted(Role::Scale) || after_is_first && wants_after;
        let wants_second = is_wanted(Role::Rescale) || !after_is_first && wants_after;
        if wants_first && wants_second && is_one_sum::<B>(values, grad) {
            return both_groups::<B>(of_group(Group::All), values).map(Some);
        }
        let first = |mut sums: Sums<FloatTensor<B>>| {
            if values.divides && is_wanted(Role::Scale) {
                sums.of_product = values.scaled::<B>(sums.of_product);
            }
            sums
        };
        [
            wants_first.then(|| first(of_group(Group::First))),
            wants_second.then(|| of_group(Group::Second)),
        ]
    }

    /// Where the sum is of which the gradient of a factor is made: the group, and whether it is that of the gradient or that of the
    /// product.
    fn place(&self, role: Role) -> Option<(usize, usize)> {
        match role {
            Role::Before => Some((0, 0)),
            Role::Scale => Some((0, 1)),
            Role::Rescale => Some((1, 1)),
            Role::After => Some((usize::from(self.values.rescale.is_some()), 0)),
            Role::X | Role::Plus => None,
        }
    }

    /// Makes the gradient of a factor from a sum.
    fn gradient(&self, factor: Role, sum: FloatTensor<B>) -> FloatTensor<B> {
        let values = &self.values;
        let gradient = match factor {
            Role::Before => values.scaled::<B>(sum),
            Role::Scale if values.divides => B::float_neg(values.scaled::<B>(sum)),
            Role::Scale | Role::Rescale | Role::After | Role::X | Role::Plus => sum,
        };
        let at = FACTORS.iter().position(|role| *role == factor);
        let factor = at.and_then(|at| values.factors()[at]);
        summed::<B>(gradient, &factor.expect("a parent is a factor").shape())
    }
}

/// Whether the sums of both groups are made of sums over the same few dimensions, as those of a batch norm: one pass over
/// the gradient gives all of them.
fn is_one_sum<B: AmpBackend>(values: &Affine<FloatTensor<B>>, grad: &FloatTensor<B>) -> bool {
    let kept = values.kept(Group::All);
    kept.is_some_and(|kept| kept.num_elements() * SMALL <= grad.shape().num_elements())
}

/// Makes the sums of both groups from those of [`Group::All`].
fn both_groups<B: AmpBackend>(
    all: Sums<FloatTensor<B>>,
    values: &Affine<FloatTensor<B>>,
) -> [Sums<FloatTensor<B>>; 2] {
    let Sums {
        of_gradient,
        of_product,
    } = all;
    let (of_first, scaled_product) = if values.divides {
        let scaled = values.scaled::<B>(of_product);
        (scaled.clone(), scaled)
    } else {
        (of_product.clone(), values.scaled::<B>(of_product))
    };
    let first = Sums {
        of_gradient: values.rescaled::<B>(of_gradient.clone()),
        of_product: values.rescaled::<B>(of_first),
    };
    let second = Sums {
        of_gradient,
        of_product: scaled_product,
    };
    [first, second]
}
