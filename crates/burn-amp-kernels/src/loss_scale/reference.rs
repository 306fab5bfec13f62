use burn_amp_core::DynamicLossScale;
use burn_backend::Scalar;

use super::{
    DOWN, HYSTERESIS, OVER, SCALE, SEARCH, STREAK, UP, is_positive, number, overflowed, scale_of,
};
use crate::{prelude::*, widen::empty_wide_like};

/// Computes the numbers of both outcomes, during and after the search, with Burn's ops, and selects between them.
pub fn reference_next<B: Backend>(
    state: FloatTensor<B>,
    flags: FloatTensor<B>,
    scaling: DynamicLossScale,
) -> FloatTensor<B> {
    let bool_dtype = get_device_settings::<B>(&B::float_device(&state)).bool_dtype;
    let at = |at| number::<B>(state.clone(), at);
    let (scale, search) = (at(SCALE), at(SEARCH));
    let overflowed = B::float_max(flags);
    let overflows = is_positive::<B>(overflowed.clone());
    let searches = is_positive::<B>(search.clone());
    let is_down = B::float_equal_elem(search, DOWN.into(), bool_dtype);
    let constant = |value: f32| full::<B>(&state, value);
    // Returns `yes` where `mask` is true, else `no`.
    let select = |mask: &BoolTensor<B>, yes, no| B::float_mask_where(no, mask.clone(), yes);

    let lowered = |factor: f32| {
        let lower = B::float_mul_scalar(scale.clone(), factor.into());
        let lower = B::float_clamp_min(lower, scaling.min.into());
        let rises = B::float_greater(lower.clone(), scale.clone(), bool_dtype);
        select(&rises, scale.clone(), lower)
    };
    let left = B::float_sub_scalar(at(HYSTERESIS), 1f32.into());
    let left = B::float_clamp_min(left, 0f32.into());
    let tolerated = is_positive::<B>(left.clone());
    let backed_off = select(&tolerated, scale.clone(), lowered(scaling.backoff_factor));
    let searched = select(
        &is_down,
        lowered(DynamicLossScale::SEARCH_FALL),
        lowered(0.5),
    );
    let full_hysteresis = || constant(scaling.hysteresis as f32);
    let after_overflow = [
        select(&searches, searched, backed_off),
        constant(0.0),
        select(&searches, full_hysteresis(), left),
        select(&is_down, constant(DOWN), constant(OVER)),
    ];

    let streak = B::float_add_scalar(at(STREAK), 1f32.into());
    let interval = Scalar::from(scaling.growth_interval as f32);
    let grows = B::float_greater_equal_elem(streak.clone(), interval, bool_dtype);
    let grown = B::float_mul_scalar(scale.clone(), scaling.growth_factor.into());
    let grown = B::float_clamp_max(grown, scaling.max.into());
    let falls = B::float_lower(grown.clone(), scale.clone(), bool_dtype);
    let grown = select(&falls, scale.clone(), grown);
    let is_below_init = B::float_lower_elem(scale.clone(), scaling.init.into(), bool_dtype);
    let doubled = B::float_mul_scalar(scale.clone(), 2f32.into());
    let searched = select(&is_below_init, doubled, scale.clone());
    let stage = select(&is_below_init, constant(UP), constant(OVER));
    let after_finite = [
        select(&searches, searched, select(&grows, grown, scale.clone())),
        select(
            &searches,
            constant(0.0),
            select(&grows, constant(0.0), streak),
        ),
        full_hysteresis(),
        select(&searches, stage, constant(OVER)),
    ];

    let numbers = after_overflow.into_iter().zip(after_finite);
    let numbers: Vec<_> = numbers
        .map(|(yes, no)| select(&overflows, yes, no))
        .collect();
    let [scale, streak, hysteresis, search] =
        numbers.try_into().expect("each outcome has four numbers");
    // In the order of a state.
    B::float_cat(vec![scale, streak, hysteresis, overflowed, search], 0)
}

/// Multiplies by the reciprocal of the scale with Burn's ops, and masks.
pub fn reference_unscale<B: Backend>(
    gradient: FloatTensor<B>,
    before: FloatTensor<B>,
    after: FloatTensor<B>,
) -> FloatTensor<B> {
    if gradient.shape().num_elements() == 0 {
        return empty_wide_like::<B>(&gradient);
    }
    let ones = Shape::from(vec![1; gradient.rank()]);
    let factor = B::float_recip(scale_of::<B>(before));
    let gradient = widen::<B>(gradient);
    let factor = cast::<B>(B::float_reshape(factor, ones.clone()), gradient.dtype());
    let unscaled = B::float_mul(gradient, factor);
    let overflowed = B::bool_reshape(overflowed::<B>(after), ones);
    let overflowed = B::bool_expand(overflowed, unscaled.shape());
    B::float_mask_fill(unscaled, overflowed, 0f32.into())
}

/// Makes `value` a tensor `[1]` on the device of `like`.
fn full<B: Backend>(like: &FloatTensor<B>, value: f32) -> FloatTensor<B> {
    B::float_full(
        Shape::new([1]),
        value.into(),
        &B::float_device(like),
        FloatDType::F32,
    )
}
