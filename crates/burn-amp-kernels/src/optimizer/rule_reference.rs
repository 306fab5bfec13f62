//! Burn's optimizers in Burn's ops, in their order.

use burn_backend::Scalar;

use super::{AdamRule, Decay, Rule, SgdMomentum, SgdRule};
use crate::prelude::*;

type MomentList<B> = Vec<FloatTensor<B>>;

/// One parameter before a step, in the dtype in which it is computed.
pub(super) struct BeforeStep<B: Backend> {
    pub(super) lr: f64,
    pub(super) time: i32,
    pub(super) weights: FloatTensor<B>,
    /// The gradient, unscaled.
    pub(super) gradient: FloatTensor<B>,
    /// The moments; `None` before the first step.
    pub(super) moments: Option<MomentList<B>>,
}

/// Returns the weights and the moments after the step.
pub(super) fn moved<B: Backend>(
    rule: Rule,
    before: BeforeStep<B>,
) -> (FloatTensor<B>, MomentList<B>) {
    match rule {
        Rule::Adam(rule) => adam(rule, before),
        Rule::AdamW(rule, decay) => adam_w(rule, decay, before),
        Rule::Sgd(rule) => sgd(rule, before),
    }
}

/// Burn's `Adam`.
fn adam<B: Backend>(rule: AdamRule, before: BeforeStep<B>) -> (FloatTensor<B>, MomentList<B>) {
    let BeforeStep { lr, weights, .. } = before;
    let gradient = penalized::<B>(before.gradient, &weights, rule.penalty);
    let moments = adam_moments::<B>(rule, gradient, before.moments);
    let [correction_1, correction_2] = rule.corrections(before.time);
    let correction_2 = correction_2.sqrt();
    let mean = times::<B>(moments[0].clone(), correction_2 / correction_1);
    let root = B::float_sqrt(used_second_moment::<B>(&moments));
    let root = plus::<B>(root, rule.epsilon * correction_2);
    let delta = times::<B>(B::float_div(mean, root), lr);
    (B::float_sub(weights, delta), moments)
}

/// Burn's `AdamW`.
fn adam_w<B: Backend>(
    rule: AdamRule,
    decay: Decay,
    before: BeforeStep<B>,
) -> (FloatTensor<B>, MomentList<B>) {
    let BeforeStep { lr, weights, .. } = before;
    let moments = adam_moments::<B>(rule, before.gradient, before.moments);
    let [correction_1, correction_2] = rule.corrections(before.time);
    let mean = B::float_div_scalar(moments[0].clone(), correction_1.into());
    let square = B::float_div_scalar(used_second_moment::<B>(&moments), correction_2.into());
    let root = plus::<B>(B::float_sqrt(square), rule.epsilon);
    let delta = B::float_div(mean, root);

    let rate = lr * f64::from(decay.rate);
    let decayed = if rate == 0.0 {
        weights
    } else if decay.cautious {
        let bool_dtype = bool_dtype::<B>(&weights);
        let is_positive =
            |x: FloatTensor<B>| B::float_greater_equal_elem(x, 0f32.into(), bool_dtype);
        let differ = B::bool_not_equal(
            is_positive(weights.clone()),
            is_positive(moments[0].clone()),
        );
        let decay = times::<B>(weights.clone(), rate);
        B::float_sub(weights, B::float_mask_fill(decay, differ, 0f32.into()))
    } else {
        times::<B>(weights, 1.0 - rate)
    };
    (B::float_sub(decayed, times::<B>(delta, lr)), moments)
}

/// The moments of Adam after the step; without moments before it, they are those of the first step.
fn adam_moments<B: Backend>(
    rule: AdamRule,
    gradient: FloatTensor<B>,
    moments: Option<MomentList<B>>,
) -> MomentList<B> {
    let mut old = moments.map(Vec::into_iter);
    // In the order of Burn's ops: the moment before the step, then the gradient in it.
    let mut moved = |beta: f32, added: &dyn Fn() -> FloatTensor<B>| match &mut old {
        Some(old) => {
            let old = old.next().expect("as many moments as the rule has");
            let kept = times::<B>(old, beta);
            B::float_add(kept, times::<B>(added(), 1.0 - beta))
        }
        None => times::<B>(added(), 1.0 - beta),
    };
    let first = moved(rule.beta_1, &|| gradient.clone());
    let second = moved(rule.beta_2, &|| {
        B::float_powi_scalar(gradient.clone(), 2.into())
    });
    let largest = old.and_then(|mut old| old.next());
    let mut moments = vec![first, second.clone()];
    if rule.amsgrad {
        moments.push(match largest {
            Some(largest) => {
                let bool_dtype = bool_dtype::<B>(&largest);
                let rises = B::float_lower(largest.clone(), second.clone(), bool_dtype);
                B::float_mask_where(largest, rises, second)
            }
            None => second,
        });
    }
    moments
}

/// The second moment, or with amsgrad the largest one so far.
fn used_second_moment<B: Backend>(moments: &MomentList<B>) -> FloatTensor<B> {
    moments.last().expect("Adam has moments").clone()
}

/// Burn's `Sgd`.
fn sgd<B: Backend>(rule: SgdRule, before: BeforeStep<B>) -> (FloatTensor<B>, MomentList<B>) {
    let BeforeStep { weights, .. } = before;
    let gradient = penalized::<B>(before.gradient, &weights, rule.penalty);
    let (gradient, moments) = match rule.momentum {
        Some(SgdMomentum {
            momentum,
            dampening,
            nesterov,
        }) => {
            let velocity = match before
                .moments
                .and_then(|moments| moments.into_iter().next())
            {
                Some(velocity) => B::float_add(
                    times::<B>(gradient.clone(), 1.0 - dampening),
                    times::<B>(velocity, momentum),
                ),
                None => gradient.clone(),
            };
            let gradient = if nesterov {
                B::float_add(times::<B>(velocity.clone(), momentum), gradient)
            } else {
                velocity.clone()
            };
            (gradient, vec![velocity])
        }
        None => (gradient, Vec::new()),
    };
    let delta = times::<B>(gradient, before.lr);
    (B::float_sub(weights, delta), moments)
}

fn penalized<B: Backend>(
    gradient: FloatTensor<B>,
    weights: &FloatTensor<B>,
    penalty: Option<f32>,
) -> FloatTensor<B> {
    match penalty {
        Some(penalty) => B::float_add(times::<B>(weights.clone(), penalty), gradient),
        None => gradient,
    }
}

pub(super) fn times<B: Backend>(x: FloatTensor<B>, factor: impl Into<Scalar>) -> FloatTensor<B> {
    B::float_mul_scalar(x, factor.into())
}

fn plus<B: Backend>(x: FloatTensor<B>, summand: f32) -> FloatTensor<B> {
    B::float_add_scalar(x, summand.into())
}
