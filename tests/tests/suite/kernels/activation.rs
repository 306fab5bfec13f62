//! Activation functions, compared with the host in F64, and GELU with Burn's.

use burn::tensor::{bf16, f16};
use burn_amp_kernels::activation::{self, Activation};

use super::prelude::*;

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
            let numbers = numbers.filter(|x| x.to_f32().abs() <= 1000.0);
            TensorData::from(&*numbers.collect::<Vec<_>>())
        }
        DType::BF16 => {
            let numbers = bits.map(bf16::from_bits);
            let numbers = numbers.filter(|x| x.to_f32().abs() < f32::MAX.sqrt());
            TensorData::from(&*numbers.collect::<Vec<_>>())
        }
        _ => return None,
    };
    Some(Plain::float_from_data(data, &here()))
}

/// The error that F32 arithmetic allows, for a result of the size `expected`: an F32 exponential of `-x` is off by `|x|`
/// epsilons at most, the error function and Burn's slopes by some.
fn tolerance(x: f64, expected: f64) -> f64 {
    let x = x.abs().min(100.0);
    f64::from(f32::EPSILON) * (4.0 + x * expected.abs().max(2.0))
}

/// The lengths that are tried.
const LENGTHS: &[&[usize]] = &[&[1], &[2], &[3], &[31], &[32], &[33], &[1000], &[4099]];

/// The function, with a result in a dtype that depends on the operand's.
struct Forward<F>(Activation, F);

impl<F: Fn(DType) -> DType> OnLines for Forward<F> {
    const SHAPES: &[&[usize]] = LENGTHS;

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        let x = operands[0].clone();
        let dtype = (self.1)(x.dtype()).into();
        vec![activation::forward::<B>(x, self.0, dtype)]
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![(self.1)(operands[0])]
    }

    fn host(&self, _operands: &[Float], _dim: usize) -> Host<'_> {
        Box::new(|line| {
            let near = |x: &f64| (value(self.0, *x), tolerance(*x, value(self.0, *x)));
            vec![line.of[0].iter().map(near).collect()]
        })
    }
}

/// The slope times a gradient.
struct Backward(Activation);

impl OnLines for Backward {
    const OPERANDS: usize = 2;
    const SHAPES: &[&[usize]] = LENGTHS;

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        let [x, g] = [0, 1].map(|at: usize| operands[at].clone());
        vec![activation::backward::<B>(x, g, self.0)]
    }

    fn host(&self, _operands: &[Float], _dim: usize) -> Host<'_> {
        Box::new(|line| {
            let near = |(x, g): (&f64, &f64)| {
                let dx = g * slope(self.0, *x);
                (dx, g.abs() * tolerance(*x, dx))
            };
            vec![line.of[0].iter().zip(&line.of[1]).map(near).collect()]
        })
    }
}

#[test]
fn values_and_slopes_are_as_the_host_computes() {
    for activation in ACTIVATIONS {
        law::holds(&Forward(activation, |dtype| dtype));
        law::holds(&Forward(activation, |_| DType::F32));
        if activation != Activation::Gelu || has_exact_slope_of_gelu() {
            law::holds(&Backward(activation));
        }
    }
}

#[test]
fn every_number_in_half_precision_has_its_value_and_its_slope() {
    for x in dtypes().into_iter().filter_map(all) {
        let n = x.shape().num_elements();
        let x_and_grad = [x.clone(), tensor(&vec![3.0; n], &[n], DType::F32)];
        for activation in ACTIVATIONS {
            assert_lines(
                &Forward(activation, |dtype| dtype),
                "all",
                std::slice::from_ref(&x),
                0,
            );
            assert_lines(
                &Forward(activation, |_| DType::F32),
                "all",
                std::slice::from_ref(&x),
                0,
            );
            if activation != Activation::Gelu || has_exact_slope_of_gelu() {
                assert_lines(&Backward(activation), "all", &x_and_grad, 0);
            }
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
            let result = activation::forward::<Plain>(ends.clone(), activation, dtype.into());
            let result = read(&result);
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
