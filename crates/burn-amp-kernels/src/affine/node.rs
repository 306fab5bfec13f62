use std::{any::TypeId, mem, sync::Arc};

use burn_backend::ops::{ActivationOps, FloatTensorOps};

use super::{
    Affine, Group, SMALL, Sums,
    joint::contribute,
    op::{forward, in_order_of},
    reference::summed,
    sums::sums,
    term::{Chain, Term},
};
use crate::{
    graph,
    prelude::*,
    sign_mask::{self, SignMask},
};

/// Computes the chain as one node of the graph, which keeps `x` as it is stored and the factors; of a sum with `plus` and its
/// ReLU, one bit per element.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    affine: Affine<Autodiff<B, C>>,
    plus: Option<Tracked<B, C>>,
    dtype: FloatDType,
) -> Tracked<B, C> {
    if plus.is_some() && TypeId::of::<C>() != TypeId::of::<NoCheckpointing>() {
        return op_by_op::<B, C>(x, affine, plus, dtype);
    }
    let mut values = affine.with_factors(
        affine
            .factors()
            .map(|factor| factor.map(|factor| factor.primitive.clone())),
    );
    let summand = plus.as_ref().map(|plus| plus.primitive.clone());
    let output = forward::<B>(x.primitive.clone(), values.clone(), summand, dtype);
    let mut parents = vec![(Role::X, x.clone())];
    let roles = [Role::Before, Role::Scale, Role::Rescale, Role::After];
    for (role, factor) in roles.into_iter().zip(affine.factors()) {
        parents.extend(factor.map(|factor| (role, factor.clone())));
    }
    let is_sum = plus.is_some();
    parents.extend(plus.map(|plus| (Role::Plus, plus)));
    parents.retain(|(_, tensor)| tensor.is_tracked());
    let has_mask = is_sum && mem::take(&mut values.relu);
    if parents.is_empty() {
        return graph::untracked::<B, C>(&x, output);
    }
    // Without a ReLU and gradients of factors, the backward pass does not read `x`: then the graph keeps nothing of it.
    let is_factor = |role| !matches!(role, Role::X | Role::Plus);
    let reads_x = values.relu || parents.iter().any(|(role, _)| is_factor(*role));
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
                forward::<B>(x, values.clone(), None, dtype)
            };
            Recording::<B, C, _, N>::computed_again(operands, is_read, again)
        } else {
            Recording::<B, C, _, N>::new(operands, is_read)
        };
        node.finish(output, keep)
    })
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
    Before,
    Scale,
    Rescale,
    After,
    /// A tensor that was added.
    Plus,
}

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

impl<B: AmpBackend> Node<B> for Kept<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self {
            x,
            values,
            roles,
            mask,
            of_plus,
        } = self;
        let grad = pass.gradient();
        let x = x.or_else(|| pass.operand(0));
        // Only the shape is read of what stands for an `x` that is not needed.
        let (x, grad) = match (x, mask) {
            (Some(x), mask) => {
                let grad = match mask {
                    Some(mask) => sign_mask::zeroed_as::<B>(grad, mask, &x),
                    None => in_order_of::<B>(grad, &x),
                };
                (x, grad)
            }
            (None, Some(mask)) => {
                let grad = sign_mask::zeroed::<B>(grad, mask);
                (grad.clone(), grad)
            }
            (None, None) => (grad.clone(), grad),
        };
        let is_wanted = |role| roles.contains(&role);
        let after_is_first = values.rescale.is_none();
        let of_group = |group, wanted: bool| {
            wanted.then(|| sums::<B>(x.clone(), values.clone(), grad.clone(), group))
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
        for (at, role) in roles.iter().enumerate() {
            let (gradient, factor) = match role {
                Role::X => {
                    let chain = Chain {
                        x: x.clone(),
                        affine: values.clone(),
                        grad: grad.clone(),
                    };
                    contribute(Term::Chain(chain), at, &B::float_device(&grad), &mut pass);
                    continue;
                }
                Role::Plus => {
                    pass.register(at, cast::<B>(grad.clone(), of_plus));
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
            pass.register(at, summed::<B>(gradient, &factor.shape()));
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
