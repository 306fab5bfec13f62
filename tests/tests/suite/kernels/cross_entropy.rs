//! One log-probability per row and its gradient, and Burn's cross entropy loss under Amp.

use burn::tensor::{activation, ops::IntTensorOps};
use burn_amp_kernels::{cross_entropy, log_softmax};

use super::log_softmax::{of_logarithm, on_host};
use super::prelude::*;

type B = AmpAutodiff;

/// The log-probabilities of targets, and the gradients of `x` where theirs are g.
struct AtTargets;

impl AtTargets {
    /// One target per row: the first class, the last one, and others.
    fn target(row: usize, n: usize) -> usize {
        [0, n - 1, row * 7 % n][row % 3]
    }

    /// A gradient in [-4, 4].
    fn g(row: usize) -> f64 {
        (row * 7919 % 129) as f64 / 16.0 - 4.0
    }
}

impl OnLines for AtTargets {
    const ALONG_ALL: bool = false;
    // On CUDA, gathering no elements fails in burn-cubecl: a launch without cubes is refused.
    const TAKES_NOTHING: bool = cfg!(not(feature = "cuda"));

    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        let x = || operands[0].clone();
        let mut of_rows = x().shape();
        let n = of_rows[dim];
        of_rows[dim] = 1;
        let rows = of_rows.num_elements();
        let targets = TensorData::new(targets(rows, n), of_rows.clone());
        let dtype = Tensor::<Plain, 1, Int>::from_ints([0], &here()).dtype();
        let targets = || {
            let targets = targets.clone().convert_dtype(dtype);
            Plain::int_from_data(targets, &here())
        };
        let found = log_softmax::forward::<Plain>(x(), dim, wide(x().dtype()).into());
        let sums = || found.log_sum_exp.clone();
        let g: Vec<_> = (0..rows).map(Self::g).collect();
        let g = tensor(&g, of_rows.as_slice(), DType::F32);
        let at = cross_entropy::forward::<B>(found.output.clone(), x(), sums(), targets());
        // Before the gradient is asked for: in one kernel with ops on whole rows, burn-fusion 0.21 gathers other elements.
        read(&at);
        vec![at, cross_entropy::backward::<B>(x(), sums(), targets(), g)]
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![wide(operands[0]), operands[0]]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let n = operands[0].shape()[dim];
        let near = of_logarithm(n);
        let slack = slack(DType::F32, n);
        Box::new(move |line| {
            let (target, log) = (Self::target(line.row, n), on_host(&line.of[0]));
            let dx = |(at, log): (usize, &f64)| {
                let one_hot = f64::from(u8::from(at == target));
                // |g| is at most 4; the relative error of a probability is the absolute error of its exponent.
                (Self::g(line.row) * (one_hot - log.exp()), 4.0 * slack)
            };
            vec![
                vec![near(log[target])],
                log.iter().enumerate().map(dx).collect(),
            ]
        })
    }
}

fn targets(rows: usize, n: usize) -> Vec<i64> {
    (0..rows)
        .map(|row| AtTargets::target(row, n) as i64)
        .collect()
}

#[test]
fn log_probabilities_and_their_gradients_are_as_the_host_computes() {
    law::holds(&AtTargets);
    for dtype in dtypes() {
        law::sizes_hold::<References, _>(&AtTargets, dtype);
    }
}

/// The loss and the weights' gradient under Burn's cross entropy, with its configuration changed by `with`.
fn loss_and_gradient<B: AutodiffBackend>(
    with: impl Fn(CrossEntropyLossConfig) -> CrossEntropyLossConfig,
) -> (f32, Vec<f32>) {
    let [rows, inner, n] = [12, 8, 40];
    let values = |elements, seed, shape: [usize; 2]| {
        let values: Vec<f32> = noise(elements, seed)
            .into_iter()
            .map(|x| x as f32)
            .collect();
        Tensor::<B, 2>::from_data(TensorData::new(values, shape), &here())
    };
    let weight = values(inner * n, 1, [inner, n]).require_grad();
    // The logits are stored low, like those of a linear layer.
    let logits = values(rows * inner, 2, [rows, inner]).matmul(weight.clone());
    let data = TensorData::new(targets(rows, n), [rows]);
    let targets = Tensor::<B, 1, Int>::from_data(data, &here());
    let loss = with(CrossEntropyLossConfig::new())
        .init(&here())
        .forward(logits, targets);
    let grads = loss.backward();
    let gradient = weight.grad(&grads).unwrap().values();
    (loss.values()[0], gradient)
}

policy!(Fused, computing_in(Compute::F16));
policy!(
    /// A policy under which the log-softmax has a low result, so that the cross entropy is not fused with it.
    Apart,
    in_f16(|it| it.ops = [(Op::log_softmax, Class::Widest)].into())
);

#[test]
fn burns_cross_entropy_has_the_loss_and_the_gradient_of_f32() {
    let _policy = enter::<Fused>();
    let plain = |config: CrossEntropyLossConfig| config;
    let padded = |config: CrossEntropyLossConfig| config.with_pad_tokens(Some(vec![0, 39]));
    let weighted = |config: CrossEntropyLossConfig| config.with_weights(Some(vec![0.5; 40]));
    let smoothed = |config: CrossEntropyLossConfig| config.with_smoothing(Some(0.1));
    let configs: [fn(CrossEntropyLossConfig) -> CrossEntropyLossConfig; 4] =
        [plain, padded, weighted, smoothed];
    for with in configs {
        let (expected, expected_gradient) = loss_and_gradient::<PlainAutodiff>(with);
        let (found, gradient) = loss_and_gradient::<B>(with);
        // Logits of up to 64 are rounded to F16, which affects the loss and the gradient.
        let epsilon = epsilon(DType::F16) as f32;
        assert!(
            (found - expected).abs() <= 64.0 * epsilon,
            "{found}, {expected}"
        );
        let largest = expected_gradient
            .iter()
            .fold(0f32, |max, x| max.max(x.abs()));
        for (found, expected) in gradient.iter().zip(&expected_gradient) {
            assert!(
                (found - expected).abs() <= 64.0 * epsilon * largest,
                "{found}, {expected}"
            );
        }
    }
}

/// Every op that reads the result of a log-softmax gets the values that the tensor holds.
#[test]
fn only_one_element_per_row_along_the_last_dimension_is_read_beside_the_tensor() {
    let _policy = enter::<Fused>();
    let values: Vec<f32> = noise(24, 3).into_iter().map(|x| x as f32).collect();
    let x = Tensor::<B, 2>::from_data(TensorData::new(values, [4, 6]), &here());
    let x = x.matmul(Tensor::eye(6, &here()));
    for dim in 0..2 {
        let log = activation::log_softmax(x.clone(), dim);
        let all = log.clone().values();
        for (dim, shape) in [
            (0, [1, 6]),
            (0, [4, 6]),
            (1, [4, 1]),
            (1, [4, 3]),
            (1, [4, 6]),
        ] {
            let indices: Vec<i64> = (0..shape[0] * shape[1]).map(|at| at as i64 % 4).collect();
            let at =
                Tensor::<B, 2, Int>::from_data(TensorData::new(indices.clone(), shape), &here());
            let found = log.clone().gather(dim, at).values();
            for (place, found) in found.iter().enumerate() {
                let (row, column) = (place / shape[1], place % shape[1]);
                let index = indices[place] as usize;
                let expected = match dim {
                    0 => all[index * 6 + column],
                    _ => all[row * 6 + index],
                };
                let close = (found - expected).abs() <= 4.0 * f32::EPSILON * 8.0;
                assert!(close, "{found}, {expected}");
            }
        }
    }
}

#[test]
fn a_log_softmax_that_is_apart_has_the_same_loss() {
    let identity = |config| config;
    let (fused, _) = within::<Fused, _>(|| loss_and_gradient::<B>(identity));
    let (apart, _) = within::<Apart, _>(|| loss_and_gradient::<B>(identity));
    assert!((fused - apart).abs() <= 16.0 * epsilon(DType::F16) as f32);
}

#[test]
fn large_logits_keep_the_digits_of_the_loss() {
    let _policy = enter::<Fused>();
    fn loss<B: AutodiffBackend>() -> f32 {
        let logits = Tensor::<B, 2>::from_floats([[0.25, 1.0, -0.5], [2.0, 0.0, 0.75]], &here());
        let logits = logits + 10_000.0;
        let targets = Tensor::from_ints([1, 0], &here());
        let loss = CrossEntropyLossConfig::new()
            .init(&here())
            .forward(logits, targets);
        loss.values()[0]
    }
    let (found, expected) = (loss::<B>(), loss::<PlainAutodiff>());
    assert!(
        (found - expected).abs() <= 8.0 * f32::EPSILON,
        "{found}, {expected}"
    );
}
