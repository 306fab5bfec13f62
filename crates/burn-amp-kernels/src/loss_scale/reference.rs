use burn_amp_core::DynamicLossScale;
use burn_backend::{
    Backend, FloatDType, Scalar, Shape, TensorMetadata, get_device_settings, tensor::FloatTensor,
};

use super::{HYSTERESIS, SCALE, STREAK, is_positive, number, overflowed, scale_of};
use crate::widen::{cast, empty_wide_like, widen};

/// Computes the numbers of both outcomes with Burn's ops, and selects between them.
pub fn reference_next<B: Backend>(
    state: FloatTensor<B>,
    flags: FloatTensor<B>,
    scaling: DynamicLossScale,
) -> FloatTensor<B> {
    let bool_dtype = get_device_settings::<B>(&B::float_device(&state)).bool_dtype;
    let at = |at| number::<B>(state.clone(), at);
    let (scale, streak, hysteresis) = (at(SCALE), at(STREAK), at(HYSTERESIS));
    let overflowed = B::float_max(flags);
    let overflows = is_positive::<B>(overflowed.clone());
    let constant = |value: f32| full::<B>(&state, value);

    let left = B::float_clamp_min(B::float_sub_scalar(hysteresis, 1f32.into()), 0f32.into());
    let backed_off = B::float_clamp_min(
        B::float_mul_scalar(scale.clone(), scaling.backoff_factor.into()),
        scaling.min.into(),
    );
    let tolerated = is_positive::<B>(left.clone());
    let scale_after_overflow = B::float_mask_where(backed_off, tolerated, scale.clone());

    let streak = B::float_add_scalar(streak, 1f32.into());
    let interval = Scalar::from(scaling.growth_interval as f32);
    let grows = B::float_greater_equal_elem(streak.clone(), interval, bool_dtype);
    let grown = B::float_clamp_max(
        B::float_mul_scalar(scale.clone(), scaling.growth_factor.into()),
        scaling.max.into(),
    );
    let scale = B::float_mask_where(scale, grows.clone(), grown);
    let streak = B::float_mask_where(streak, grows, constant(0.0));

    // In the order of a state.
    let numbers = vec![
        B::float_mask_where(scale, overflows.clone(), scale_after_overflow),
        B::float_mask_where(streak, overflows.clone(), constant(0.0)),
        B::float_mask_where(constant(scaling.hysteresis as f32), overflows, left),
        overflowed,
    ];
    B::float_cat(numbers, 0)
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
