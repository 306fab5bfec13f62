//! The references in Burn's ops.

use burn_amp_core::DynamicLossScale;
use burn_backend::Scalar;

use super::{DOWN, HYSTERESIS, OVER, OVERFLOWED, SCALE, SEARCH, STREAK, UP, is_positive, number};
use crate::prelude::*;

/// Computes the numbers of both outcomes, during and after the search, with Burn's ops, and selects between them.
pub(super) fn next<B: Backend>(
    state: FloatTensor<B>,
    flags: FloatTensor<B>,
    scaling: DynamicLossScale,
) -> FloatTensor<B> {
    let overflowed = B::float_max(flags);
    let overflows = is_positive::<B>(overflowed.clone());
    let after_overflow = after_overflow::<B>(&state, scaling);
    let numbers = after_overflow
        .into_iter()
        .zip(after_finite::<B>(&state, scaling));
    let numbers = numbers.map(|(yes, no)| select::<B>(&overflows, yes, no));
    let mut numbers: Vec<_> = numbers.collect();
    numbers.insert(OVERFLOWED, overflowed);
    B::float_cat(numbers, 0)
}

/// The scale, the streak, the hysteresis and the stage of the search after an overflow.
fn after_overflow<B: Backend>(
    state: &FloatTensor<B>,
    scaling: DynamicLossScale,
) -> [FloatTensor<B>; 4] {
    let (scale, search) = (of::<B>(state, SCALE), of::<B>(state, SEARCH));
    let searches = is_positive::<B>(search.clone());
    let is_down = B::float_equal_elem(search, DOWN.into(), bool_dtype::<B>(state));
    let lowered = |factor: f32| {
        let lower = B::float_mul_scalar(scale.clone(), factor.into());
        let lower = B::float_clamp_min(lower, scaling.min.into());
        let rises = B::float_greater(lower.clone(), scale.clone(), bool_dtype::<B>(state));
        select::<B>(&rises, scale.clone(), lower)
    };
    let left = B::float_sub_scalar(of::<B>(state, HYSTERESIS), 1f32.into());
    let left = B::float_clamp_min(left, 0f32.into());
    let tolerated = is_positive::<B>(left.clone());
    let backed_off = select::<B>(&tolerated, scale.clone(), lowered(scaling.backoff_factor));
    let fall = lowered(DynamicLossScale::SEARCH_FALL);
    let searched = select::<B>(&is_down, fall, lowered(0.5));
    let constant = |value: f32| full::<B>(state, value);
    [
        select::<B>(&searches, searched, backed_off),
        constant(0.0),
        select::<B>(&searches, constant(scaling.hysteresis as f32), left),
        select::<B>(&is_down, constant(DOWN), constant(OVER)),
    ]
}

/// The same numbers after a pass that did not overflow.
fn after_finite<B: Backend>(
    state: &FloatTensor<B>,
    scaling: DynamicLossScale,
) -> [FloatTensor<B>; 4] {
    let bool_dtype = bool_dtype::<B>(state);
    let scale = of::<B>(state, SCALE);
    let searches = is_positive::<B>(of::<B>(state, SEARCH));
    let streak = B::float_add_scalar(of::<B>(state, STREAK), 1f32.into());
    let interval = Scalar::from(scaling.growth_interval as f32);
    let grows = B::float_greater_equal_elem(streak.clone(), interval, bool_dtype);
    let grown = B::float_mul_scalar(scale.clone(), scaling.growth_factor.into());
    let grown = B::float_clamp_max(grown, scaling.max.into());
    let falls = B::float_lower(grown.clone(), scale.clone(), bool_dtype);
    let grown = select::<B>(&falls, scale.clone(), grown);
    let is_below_init = B::float_lower_elem(scale.clone(), scaling.init.into(), bool_dtype);
    let doubled = B::float_mul_scalar(scale.clone(), 2f32.into());
    let searched = select::<B>(&is_below_init, doubled, scale.clone());
    let constant = |value: f32| full::<B>(state, value);
    let stage = select::<B>(&is_below_init, constant(UP), constant(OVER));
    let streak = select::<B>(&grows, constant(0.0), streak);
    [
        select::<B>(&searches, searched, select::<B>(&grows, grown, scale)),
        select::<B>(&searches, constant(0.0), streak),
        constant(scaling.hysteresis as f32),
        select::<B>(&searches, stage, constant(OVER)),
    ]
}

/// Returns one number of a state, as `[1]`.
fn of<B: Backend>(state: &FloatTensor<B>, at: usize) -> FloatTensor<B> {
    number::<B>(state.clone(), at)
}

/// Returns `yes` where the mask is true, else `no`.
fn select<B: Backend>(
    mask: &BoolTensor<B>,
    yes: FloatTensor<B>,
    no: FloatTensor<B>,
) -> FloatTensor<B> {
    B::float_mask_where(no, mask.clone(), yes)
}

/// Makes `value` a tensor `[1]` on the device of `like`.
fn full<B: Backend>(like: &FloatTensor<B>, value: f32) -> FloatTensor<B> {
    B::float_full(
        Shape::new([1]),
        value.into(),
        &device_of::<B>(like),
        FloatDType::F32,
    )
}
