//! Activation functions, compared with the host in F64, and GELU with Burn's.

use burn::tensor::{DType, TensorData, TensorMetadata, bf16, f16, ops::FloatTensorOps};
use burn_amp_kernels::{
    AmpBackend,
    activation::{self, Activation},
};
use burn_amp_tests::Plain;

use super::rows::{Float, assert_near, dtypes, layouts, noisy, read, tensor};

const ACTIVATIONS: [Activation; 3] = [Activation::Gelu, Activation::Sigmoid, Activation::Tanh];

/// The error function, by a series whose terms have one sign: exp(-x²) 2/√π (x + 2x³/3 + 4x⁵/15 + …).
fn erf(x: f64) -> f64 {
    // 1 in F64 from there on.
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// The cumulative distribution function of the normal distribution.
fn normal(x: f64) -> f64 {
    0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// The function on the host.
fn value(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Gelu => x * normal(x),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
    }
}

/// The slope on the host.
fn slope(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Gelu => {
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            normal(x) + x * density
        }
        Activation::Sigmoid => {
            let small = (-x.abs()).exp();
            small / (1.0 + small).powi(2)
        }
        Activation::Tanh => x.cosh().powi(-2),
    }
}

/// Under Fusion GELU is Burn's, whose slope is that of the approximation by tanh.
fn has_exact_slope_of_gelu() -> bool {
    !Plain::fuses_elementwise()
}

/// All finite numbers of a dtype of 16 bits whose square is finite in F32.
fn all(dtype: DType) -> Option<Float> {
    let bits = 0..=u16::MAX;
    let data = match dtype {
        DType::F16 => {
            let numbers = bits.map(f16::from_bits);
            TensorData::from(
                &*numbers
                    .filter(|x| x.to_f32().abs() <= 1000.0)
                    .collect::<Vec<_>>(),
            )
        }
        DType::BF16 => {
            let numbers = bits.map(bf16::from_bits);
            let numbers = numbers.filter(|x| x.to_f32().abs() < f32::MAX.sqrt());
            TensorData::from(&*numbers.collect::<Vec<_>>())
        }
        _ => return None,
    };
    Some(Plain::float_from_data(data, &Default::default()))
}

/// The error that F32 arithmetic allows, for a result of the size `expected`: an F32 exponential of `-x` is off by `|x|`
/// epsilons at most, the error function and Burn's slopes by some.
fn tolerance(x: f64, expected: f64) -> f64 {
    let x = x.abs().min(100.0);
    f64::from(f32::EPSILON) * (4.0 + x * expected.abs().max(2.0))
}

#[test]
fn every_number_in_half_precision_has_its_value_and_its_slope() {
    for dtype in dtypes() {
        let Some(x) = all(dtype) else { continue };
        let numbers = read(&x);
        for activation in ACTIVATIONS {
            for output in [dtype, DType::F32] {
                let what = format!("{activation:?} of {dtype:?} in {output:?}");
                let result = activation::forward::<Plain>(x.clone(), activation, output.into());
                assert_eq!(
                    (result.dtype(), result.shape()),
                    (output, x.shape()),
                    "{what}"
                );
                let expected: Vec<_> = numbers.iter().map(|x| value(activation, *x)).collect();
                let allowed = |i: usize| tolerance(numbers[i], expected[i]);
                assert_near(&what, &result, &expected, allowed);
            }
            if activation == Activation::Gelu && !has_exact_slope_of_gelu() {
                continue;
            }
            let what = format!("slope of {activation:?} in {dtype:?}");
            let grad = tensor(&vec![3.0; numbers.len()], &[numbers.len()], DType::F32);
            let dx = activation::backward::<Plain>(x.clone(), grad, activation);
            assert_eq!((dx.dtype(), dx.shape()), (dtype, x.shape()), "{what}");
            let expected: Vec<_> = numbers
                .iter()
                .map(|x| 3.0 * slope(activation, *x))
                .collect();
            assert_near(&what, &dx, &expected, |i| {
                3.0 * tolerance(numbers[i], expected[i])
            });
        }
    }
}

#[test]
fn infinities_saturate_and_nan_stays() {
    // Under Fusion the ops are Burn's, and a sigmoid of NaN was a number on Vulkan's software driver.
    let is_nan = |x: f64| x.is_nan() || Plain::fuses_elementwise();
    for dtype in dtypes() {
        let ends = tensor(&[f64::NEG_INFINITY, f64::INFINITY, f64::NAN], &[3], dtype);
        for (activation, low) in [(Activation::Sigmoid, 0.0), (Activation::Tanh, -1.0)] {
            let result = read(&activation::forward::<Plain>(
                ends.clone(),
                activation,
                dtype.into(),
            ));
            assert_eq!(result[..2], [low, 1.0], "{activation:?} in {dtype:?}");
            assert!(is_nan(result[2]), "{activation:?} in {dtype:?}");
            let grad = tensor(&[1.0; 3], &[3], dtype);
            let dx = read(&activation::backward::<Plain>(
                ends.clone(),
                grad,
                activation,
            ));
            assert_eq!(dx[..2], [0.0, 0.0], "slope of {activation:?} in {dtype:?}");
            assert!(is_nan(dx[2]), "slope of {activation:?} in {dtype:?}");
        }
    }
}

#[test]
fn the_layouts_of_operand_and_gradient_do_not_matter() {
    for dtype in dtypes() {
        for (x, grad) in layouts(1, dtype)
            .into_iter()
            .zip(layouts(2, dtype).into_iter().rev())
        {
            let [flat_x, flat_grad] = [&x, &grad].map(|of| tensor(&read(of), &[72], dtype));
            for activation in ACTIVATIONS {
                let value = activation::forward::<Plain>(x.clone(), activation, dtype.into());
                let flat = activation::forward::<Plain>(flat_x.clone(), activation, dtype.into());
                assert_eq!(read(&value), read(&flat), "{activation:?} in {dtype:?}");
                let dx = activation::backward::<Plain>(x.clone(), grad.clone(), activation);
                let flat =
                    activation::backward::<Plain>(flat_x.clone(), flat_grad.clone(), activation);
                assert_eq!(
                    read(&dx),
                    read(&flat),
                    "slope of {activation:?} in {dtype:?}"
                );
            }
        }
    }
}

#[test]
fn every_length_is_computed_in_full() {
    for dtype in dtypes() {
        for n in [1, 2, 3, 31, 32, 33, 1000, 4099] {
            let (x, grad) = (noisy(&[n], 1, dtype), noisy(&[n], 2, DType::F32));
            let (numbers, gradients) = (read(&x), read(&grad));
            for activation in ACTIVATIONS {
                let what = format!("{activation:?} of {n} in {dtype:?}");
                let result = activation::forward::<Plain>(x.clone(), activation, DType::F32.into());
                let expected: Vec<_> = numbers.iter().map(|x| value(activation, *x)).collect();
                let allowed = |i: usize| tolerance(numbers[i], expected[i]);
                assert_near(&what, &result, &expected, allowed);
                let dx = activation::backward::<Plain>(x.clone(), grad.clone(), activation);
                if activation == Activation::Gelu && !has_exact_slope_of_gelu() {
                    continue;
                }
                let expected: Vec<_> = numbers
                    .iter()
                    .zip(&gradients)
                    .map(|(x, grad)| grad * slope(activation, *x))
                    .collect();
                let allowed = |i: usize| gradients[i].abs() * tolerance(numbers[i], expected[i]);
                assert_near(&format!("slope of {what}"), &dx, &expected, allowed);
            }
        }
    }
}

#[test]
fn nothing_comes_of_nothing() {
    for dtype in dtypes() {
        let empty = || Plain::float_empty([0, 5].into(), &Default::default(), dtype.into());
        for activation in ACTIVATIONS {
            let value = activation::forward::<Plain>(empty(), activation, DType::F32.into());
            assert_eq!(value.shape().as_slice(), [0, 5]);
            let dx = activation::backward::<Plain>(empty(), empty(), activation);
            assert_eq!((dx.dtype(), dx.shape().as_slice()), (dtype, &[0, 5][..]));
        }
    }
}
