use burn_amp_core::DynamicLossScale;
use burn_backend::{
    Backend, BoolDType, FloatDType, Scalar, Shape, Slice, TensorMetadata, get_device_settings,
    tensor::{BoolTensor, FloatTensor},
};

use crate::row;

/// In Burn's ops: every number of both outcomes, and a choice between them.
pub fn reference_next<B: Backend>(
    state: FloatTensor<B>,
    flags: FloatTensor<B>,
    scaling: DynamicLossScale,
) -> FloatTensor<B> {
    let bool_dtype = get_device_settings::<B>(&B::float_device(&state)).bool_dtype;
    let at = |at| number::<B>(state.clone(), at);
    let (scale, streak, hysteresis) = (at(0), at(1), at(2));
    let overflowed = B::float_max(flags);
    let overflows = is_positive::<B>(overflowed.clone(), bool_dtype);
    let constant = |value: f32| full::<B>(&state, value);

    let left = B::float_clamp_min(B::float_sub_scalar(hysteresis, 1f32.into()), 0f32.into());
    let backed_off = B::float_clamp_min(
        B::float_mul_scalar(scale.clone(), scaling.backoff_factor.into()),
        scaling.min.into(),
    );
    let tolerated = is_positive::<B>(left.clone(), bool_dtype);
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

    let numbers = vec![
        B::float_mask_where(scale, overflows.clone(), scale_after_overflow),
        B::float_mask_where(streak, overflows.clone(), constant(0.0)),
        B::float_mask_where(constant(scaling.hysteresis as f32), overflows, left),
        overflowed,
    ];
    B::float_cat(numbers, 0)
}

/// In Burn's ops.
pub fn reference_unscale<B: Backend>(
    gradient: FloatTensor<B>,
    before: FloatTensor<B>,
    after: FloatTensor<B>,
) -> FloatTensor<B> {
    if gradient.shape().num_elements() == 0 {
        return row::nothing_like::<B>(&gradient);
    }
    let bool_dtype = get_device_settings::<B>(&B::float_device(&before)).bool_dtype;
    let ones = Shape::from(vec![1; gradient.rank()]);
    let factor = B::float_recip(number::<B>(before, 0));
    let gradient = row::widened::<B>(gradient);
    let factor = row::cast::<B>(B::float_reshape(factor, ones.clone()), gradient.dtype());
    let unscaled = B::float_mul(gradient, factor);
    let overflowed = is_positive::<B>(number::<B>(after, 3), bool_dtype);
    let overflowed = B::bool_expand(B::bool_reshape(overflowed, ones), unscaled.shape());
    B::float_mask_fill(unscaled, overflowed, 0f32.into())
}

/// One number of a state, as `[1]`.
fn number<B: Backend>(state: FloatTensor<B>, at: usize) -> FloatTensor<B> {
    let range = Slice::from(at..at + 1);
    B::float_slice(state, &[range])
}

fn is_positive<B: Backend>(tensor: FloatTensor<B>, dtype: BoolDType) -> BoolTensor<B> {
    B::float_greater_elem(tensor, 0f32.into(), dtype)
}

/// `value` as `[1]`, on the device of `like`.
fn full<B: Backend>(like: &FloatTensor<B>, value: f32) -> FloatTensor<B> {
    B::float_full(
        Shape::new([1]),
        value.into(),
        &B::float_device(like),
        FloatDType::F32,
    )
}
