//! Law: an op of a tensor in low precision and a scalar is the op in F32, rounded once, for every finite value of the
//! dtype.

use burn::{
    nn::DropoutConfig,
    tensor::{activation::leaky_relu, bf16, f16},
};
use burn_amp_tests::prelude::*;

macro_rules! for_each_dtype {
    ($function:ident) => {
        under_each!(|| $function(precision()), InBf16, UnscaledF16)
    };
}

/// Scalars that neither dtype holds, and that neither loses.
const SCALARS: [f64; 8] = [0.99, 0.9, 0.1, 1.0 / 0.9, 3.3, -0.7, 1e-3, 100.3];

/// Every finite value of a low dtype.
fn values(dtype: Precision) -> Vec<f32> {
    let value = |bits: u16| match dtype {
        Precision::BF16 => bf16::from_bits(bits).to_f32(),
        _ => f16::from_bits(bits).to_f32(),
    };
    (0..=u16::MAX)
        .map(value)
        .filter(|x| x.is_finite())
        .collect()
}

fn tensor<B: Backend>(values: &[f32]) -> Tensor<B, 1> {
    Tensor::from_data(TensorData::from(values), &here())
}

/// The tensor, stored in the compute dtype.
fn low(x: Tensor<AmpAutodiff, 1>) -> Tensor<AmpAutodiff, 1> {
    let TensorPrimitive::Float(x) = x.into_primitive() else {
        unreachable!("the tensor is float")
    };
    let x = AmpAutodiff::custom_op(Class::Low, [x], |[x]| x);
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

fn numbers<B: Backend>(x: Tensor<B, 1>) -> Vec<f32> {
    x.into_data().into_vec().expect("the model sees F32")
}

/// Equal bit by bit, except that -0 may be 0.
#[track_caller]
fn assert_same(found: &[f32], expected: &[f32], of: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len());
    for ((found, expected), x) in found.iter().zip(expected).zip(of) {
        assert_eq!(found, expected, "{what} for {x}");
    }
}

/// A number as the backend under test rounds it to a low dtype. burn-flex 0.21.0 casts by way of F64, of which `half` 2.7
/// drops the last 32 bits: what is a little more than a tie is rounded as a tie.
fn rounded(x: f32, dtype: Precision) -> f32 {
    if cfg!(feature = "cubecl") {
        return dtype.round(f64::from(x)) as f32;
    }
    match dtype {
        Precision::BF16 => bf16::from_f64(x.into()).to_f32(),
        _ => f16::from_f64(x.into()).to_f32(),
    }
}

type OnTensor<B> = fn(Tensor<B, 1>, f64) -> Tensor<B, 1>;
type OnNumber = fn(f32, f32) -> f32;

/// The ops on a tensor, on a number in F32, and what they do with a gradient.
fn arithmetic<B: Backend>() -> [(&'static str, OnTensor<B>, OnNumber, OnNumber); 5] {
    [
        ("+", |x, s| x + s, |x, s| x + s, |grad, _| grad),
        ("-", |x, s| x - s, |x, s| x - s, |grad, _| grad),
        ("*", |x, s| x * s, |x, s| x * s, |grad, s| grad * s),
        ("/", |x, s| x / s, |x, s| x / s, |grad, s| grad / s),
        (
            "leaky_relu",
            leaky_relu,
            |x, s| if x < 0.0 { x * s } else { x },
            // The gradients of the test are positive where its operands are.
            |grad, s| if grad < 0.0 { grad * s } else { grad },
        ),
    ]
}

fn rounds_once(dtype: Precision) {
    let round = |x: f32| rounded(x, dtype);
    let all = values(dtype);
    for (name, op, on_number, on_gradient) in arithmetic::<AmpAutodiff>() {
        for scalar in SCALARS {
            let what = format!("{dtype} {name} {scalar}");
            let x = tensor::<AmpAutodiff>(&all).require_grad();
            let result = op(low(x.clone()), scalar);
            let stored = storage_dtype(&result);
            assert_eq!(stored, storage_dtype(&low(x.clone())), "{what}");

            let s = scalar as f32;
            let expected: Vec<_> = all.iter().map(|x| round(on_number(*x, s))).collect();
            assert_same(&numbers(result.clone()), &expected, &all, &what);

            // A loss whose gradient with respect to the result is every value of the dtype.
            let loss = (result * low(tensor(&all))).sum();
            let grads = loss.backward();
            let gradient = numbers(x.grad(&grads).expect("x is a leaf"));
            let expected: Vec<_> = all.iter().map(|x| round(on_gradient(*x, s))).collect();
            assert_same(&gradient, &expected, &all, &format!("gradient of {what}"));
        }
    }
}

#[test]
fn arithmetic_and_its_gradient_act_on_the_scalar_in_f32() {
    for_each_dtype!(rounds_once);
}

type Compare<B> = fn(Tensor<B, 1>, f64) -> Tensor<B, 1, Bool>;
type CompareNumbers = fn(f32, f32) -> bool;

fn compares_in_f32(dtype: Precision) {
    let ops: [(&str, Compare<AmpAutodiff>, CompareNumbers); 6] = [
        (">", |x, s| x.greater_elem(s), |x, s| x > s),
        (">=", |x, s| x.greater_equal_elem(s), |x, s| x >= s),
        ("<", |x, s| x.lower_elem(s), |x, s| x < s),
        ("<=", |x, s| x.lower_equal_elem(s), |x, s| x <= s),
        ("==", |x, s| x.equal_elem(s), |x, s| x == s),
        ("!=", |x, s| x.not_equal_elem(s), |x, s| x != s),
    ];
    let all = values(dtype);
    for (name, op, on_number) in ops {
        for scalar in SCALARS.into_iter().chain([0.0, 0.5, 1.0001, 1e-9, -1e9]) {
            let found = op(low(tensor(&all)), scalar).into_data();
            for (found, x) in found.iter::<bool>().zip(&all) {
                let expected = on_number(*x, scalar as f32);
                assert_eq!(found, expected, "{dtype} {x} {name} {scalar}");
            }
        }
    }
}

#[test]
fn comparisons_compare_with_the_scalar_itself() {
    for_each_dtype!(compares_in_f32);
}

fn clamps(dtype: Precision) {
    let round = |x: f32| rounded(x, dtype);
    let ops: [(&str, OnTensor<AmpAutodiff>, OnNumber); 3] = [
        ("at least", |x, s| x.clamp_min(s), |x, s| x.max(s)),
        ("at most", |x, s| x.clamp_max(s), |x, s| x.min(s)),
        (
            "between 0.3 less and",
            |x, s| x.clamp(s - 0.3, s),
            |x, s| x.clamp((f64::from(s) - 0.3) as f32, s),
        ),
    ];
    let all = values(dtype);
    for (name, op, on_number) in ops {
        for scalar in SCALARS {
            let what = format!("{dtype} {name} {scalar}");
            let x = tensor::<AmpAutodiff>(&all).require_grad();
            let result = op(low(x.clone()), scalar);
            let clamped: Vec<_> = all.iter().map(|x| on_number(*x, scalar as f32)).collect();
            let expected: Vec<_> = clamped.iter().map(|x| round(*x)).collect();
            assert_same(&numbers(result.clone()), &expected, &all, &what);

            let grads = result.sum().backward();
            let gradient = numbers(x.grad(&grads).expect("x is a leaf"));
            let passes = all.iter().zip(&clamped).map(|(x, clamped)| x == clamped);
            let expected: Vec<_> = passes.map(|passes| f32::from(u8::from(passes))).collect();
            assert_same(&gradient, &expected, &all, &format!("gradient of {what}"));
        }
    }
}

#[test]
fn clamps_pass_the_gradient_of_what_is_within_the_bounds_themselves() {
    for_each_dtype!(clamps);
}

fn dropout_keeps_the_mean(dtype: Precision) {
    let between_one_and_two = |x: &f32| (1.0..2.0).contains(x);
    let some: Vec<_> = values(dtype)
        .into_iter()
        .filter(between_one_and_two)
        .collect();
    let many = some.repeat(8192 / some.len());
    let x = low(tensor(&many));
    let kept = DropoutConfig::new(0.1).init().forward(x);
    let ratios: Vec<f64> = numbers(kept)
        .iter()
        .zip(&many)
        .filter(|(kept, _)| **kept != 0.0)
        .map(|(kept, x)| f64::from(*kept) / f64::from(*x))
        .collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    // With the factor rounded to BF16, which is 1.109375, the mean would be off by 1.6e-3.
    let error = mean * 0.9 - 1.0;
    assert!(error.abs() < 4e-4, "{dtype}: the factor is off by {error}");
}

#[test]
fn dropout_scales_by_the_factor_itself() {
    for_each_dtype!(dropout_keeps_the_mean);
}

fn widens_if_lost(_: Precision) {
    let x = || low(tensor(&[1.5, -2.0])).inner();
    let is_low = |x: Tensor<Amp, 1>| storage_dtype(&x) != DType::F32;
    assert!(is_low(x() * 0.5) && is_low(x() * 0.3));
    assert!(!is_low(x() * 1e-46) && !is_low(x() + 1e39));
}

#[test]
fn a_scalar_that_would_be_lost_still_widens() {
    for_each_dtype!(widens_if_lost);
}
