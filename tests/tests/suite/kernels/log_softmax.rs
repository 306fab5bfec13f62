//! Log-softmax and its gradient.

use burn_amp_kernels::log_softmax;
use burn_backend::ops::ActivationOps;

use super::prelude::*;

/// The largest element of a row, and `log(sum(exp(x - max)))`.
fn statistics(x: &[f64]) -> [f64; 2] {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    [max, x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()]
}

pub fn log_sum_exp(x: &[f64]) -> f64 {
    statistics(x).iter().sum()
}

pub fn on_host(x: &[f64]) -> Vec<f64> {
    let [max, log_sum] = statistics(x);
    x.iter().map(|x| x - max - log_sum).collect()
}

/// The allowed error of a logarithm, which turns a relative error into an absolute one. In addition, numbers up to 16 are
/// rounded, or larger ones in the special rows.
pub fn of_logarithm(n: usize) -> impl Fn(f64) -> (f64, f64) {
    let slack = slack(DType::F32, n);
    move |log| {
        (
            log,
            slack + 4.0 * f64::from(f32::EPSILON) * log.abs().max(16.0),
        )
    }
}

/// The output in a dtype that depends on the operand's, and the logarithms of sums.
struct Forward<F>(F);

impl<F: Fn(DType) -> DType> OnLines for Forward<F> {
    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        let x = operands[0].clone();
        let dtype = (self.0)(x.dtype());
        let found = log_softmax::forward::<B>(x, dim, dtype.into());
        vec![found.output, found.log_sum_exp]
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![(self.0)(operands[0]), wide(operands[0])]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let near = of_logarithm(operands[0].shape()[dim]);
        Box::new(move |line| {
            let x = &line.of[0];
            vec![
                on_host(x).into_iter().map(&near).collect(),
                vec![near(log_sum_exp(x))],
            ]
        })
    }
}

/// The gradient, `g - exp(x - log_sum_exp) sum(g)`.
struct Backward;

impl OnLines for Backward {
    const OPERANDS: usize = 2;

    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        let [x, g] = [0, 1].map(|at: usize| operands[at].clone());
        let found = log_softmax::forward::<B>(x.clone(), dim, x.dtype().into());
        vec![log_softmax::backward::<B>(x, found.log_sum_exp, g, dim)]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let n = operands[0].shape()[dim];
        let slack = slack(DType::F32, n);
        Box::new(move |line| {
            let sum: f64 = line.of[1].iter().sum();
            let probabilities = on_host(&line.of[0]).into_iter().map(f64::exp);
            // The sum of |g| over a row is at most 4 n.
            let dx = |(p, g): (f64, &f64)| (g - p * sum, slack * (4.0 + 4.0 * n as f64 * p));
            vec![probabilities.zip(&line.of[1]).map(dx).collect()]
        })
    }
}

#[test]
fn log_softmax_is_as_the_host_computes_in_every_dtype() {
    law::holds(&Forward(|dtype| dtype));
    for dtype in dtypes() {
        for output in dtypes() {
            assert_lines(
                &Forward(|_| output),
                "dtypes",
                &[noisy(&[3, 40], 1, dtype)],
                1,
            );
        }
        places_hold(&Forward(|_| DType::F32), dtype);
    }
    // The result is in F32, because it may be outside the range of F16.
    law::special_rows_hold(&Forward(wide));
}

#[test]
fn the_gradient_is_as_the_host_computes() {
    law::holds(&Backward);
}

#[test]
fn gradients_in_a_graph_are_those_of_finite_differences_and_burn() {
    // |y| is at most 10, so gradients are at most 0.5 + 10.
    let of_dtype = |dtype: fn(DType) -> DType, tolerance: &dyn Fn(DType) -> f64| {
        InGraph {
            operands: &[(&SHAPE, false)],
            op: &|mut x| {
                let x = x.remove(0);
                let dtype = dtype(x.dtype()).into();
                log_softmax::forward::<PlainAutodiff>(x, 1, dtype).output
            },
            burns: &|mut x| <PlainAutodiff as ActivationOps<_>>::log_softmax(x.remove(0), 1),
            host: &|x| along(&x[0], &SHAPE, 1, on_host),
            largest: 10.5,
            tolerance,
        }
        .holds();
    };
    // An F32 output has an F32 gradient, so that there is one rounding, at the end.
    of_dtype(|_| DType::F32, &|_| slack(DType::F32, 5));
    // The output and its gradient are rounded to the dtype, and 5 gradients are summed.
    let tolerance = |dtype| 2.0 * epsilon(dtype) + 5.0 * slack(DType::F32, 5);
    of_dtype(|dtype| dtype, &tolerance);
}
