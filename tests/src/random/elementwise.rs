//! Ops that compute each element of the result from the elements at its place.

use super::all::*;
use super::shape::{broadcast, same};

table! {
    /// Ops that compute each element of the result from the elements at its place.
    Elementwise, to;
    Neg [x] () same(x) => B::float_neg(x);
    Recip [x] () same(x) => B::float_recip(x);
    Exp [x] () same(x) => B::float_exp(x);
    Log [x] () same(x) => B::float_log(x);
    Log1p [x] () same(x) => B::float_log1p(x);
    Sqrt [x] () same(x) => B::float_sqrt(x);
    Abs [x] () same(x) => B::float_abs(x);
    Cos [x] () same(x) => B::float_cos(x);
    Sin [x] () same(x) => B::float_sin(x);
    Tan [x] () same(x) => B::float_tan(x);
    Sinh [x] () same(x) => B::float_sinh(x);
    Cosh [x] () same(x) => B::float_cosh(x);
    Tanh [x] () same(x) => B::float_tanh(x);
    Asin [x] () same(x) => B::float_asin(x);
    Acos [x] () same(x) => B::float_acos(x);
    Atan [x] () same(x) => B::float_atan(x);
    Asinh [x] () same(x) => B::float_asinh(x);
    Acosh [x] () same(x) => B::float_acosh(x);
    Atanh [x] () same(x) => B::float_atanh(x);
    Erf [x] () same(x) => B::float_erf(x);
    Sign [x] () same(x) => B::float_sign(x);
    Round [x] () same(x) => B::float_round(x);
    Floor [x] () same(x) => B::float_floor(x);
    Ceil [x] () same(x) => B::float_ceil(x);
    Trunc [x] () same(x) => B::float_trunc(x);
    Relu [x] () same(x) => B::relu(x);
    Gelu [x] () same(x) => B::gelu(x);
    Sigmoid [x] () same(x) => B::sigmoid(x);
    LogSigmoid [x] () same(x) => B::log_sigmoid(x);
    HardSigmoid [x] () same(x) => B::hard_sigmoid(x, Scalar::from(0.2), Scalar::from(0.5));
    LeakyRelu [x] (slope: f64) same(x) => B::leaky_relu(x, slope.into());
    AddScalar [x] (value: f64) same(x) => B::float_add_scalar(x, value.into());
    SubScalar [x] (value: f64) same(x) => B::float_sub_scalar(x, value.into());
    MulScalar [x] (value: f64) same(x) => B::float_mul_scalar(x, value.into());
    DivScalar [x] (value: f64) same(x) => B::float_div_scalar(x, value.into());
    RemainderScalar [x] (value: f64) same(x) => B::float_remainder_scalar(x, value.into());
    Powi [x] (exponent: usize) same(x) => B::float_powi_scalar(x, Scalar::from(exponent as i64));
    Powf [x] (exponent: f64) same(x) => B::float_powf_scalar(x, exponent.into());
    ClampMin [x] (min: f64) same(x) => B::float_clamp_min(x, min.into());
    ClampMax [x] (max: f64) same(x) => B::float_clamp_max(x, max.into());
    Clamp [x] (min: f64, max: f64) same(x) => B::float_clamp(x, min.into(), max.into());

    Add [x, y] () broadcast(x, y) => B::float_add(x, y);
    Sub [x, y] () broadcast(x, y) => B::float_sub(x, y);
    Mul [x, y] () broadcast(x, y) => B::float_mul(x, y);
    Div [x, y] () broadcast(x, y) => B::float_div(x, y);
    Atan2 [x, y] () (x == y).then(|| x.clone()) => B::float_atan2(x, y);
    PowTensor [x, y] () (x == y).then(|| x.clone()) => B::float_powf(x, y);
    Prelu [x, y] () (x == y).then(|| x.clone()) => B::prelu(x, y);
    // The same operand twice, in one op.
    Twice [x] () same(x) => B::float_add(x.clone(), x);
    TimesItself [x] () same(x) => B::float_mul(x.clone(), x);

    MaskFill [x] (mask: Mask, value: f64) same(x) => {
        let mask = to.mask(mask, &x);
        B::float_mask_fill(x, mask, value.into())
    };
    MaskFillBy [x, y] (mask: Mask, value: f64) (x == y).then(|| x.clone()) => {
        B::float_mask_fill(x, to.mask(mask, &y), value.into())
    };
    MaskWhere [x, y] (mask: Mask) (x == y).then(|| x.clone()) => {
        let mask = to.mask(mask, &x);
        B::float_mask_where(x, mask, y)
    };
    WhereGreater [x, y] () (x == y).then(|| x.clone()) => {
        let mask = B::float_greater(x.clone(), y.clone(), to.bool_dtype());
        B::float_mask_where(x, mask, y)
    };
    WhereEitherLower [x, y] (limit: f64) (x == y).then(|| x.clone()) => {
        let low = B::float_lower_elem(x.clone(), limit.into(), to.bool_dtype());
        let lower = B::float_lower_equal(x.clone(), y.clone(), to.bool_dtype());
        B::float_mask_where(y, B::bool_or(low, lower), x)
    };
    MaskAsNumbers [x] (mask: Mask) same(x) => {
        let mask = to.mask(mask, &x);
        B::float_mul(x.clone(), to.ones_where(mask, &x))
    };
    PlusNoise [x] (seed: u64) same(x) => {
        let noise = to.noise_like(&x, seed);
        B::float_add(x, noise)
    };
    TimesNoise [x] (seed: u64) same(x) => {
        let noise = to.noise_like(&x, seed);
        B::float_mul(x, noise)
    };
}
