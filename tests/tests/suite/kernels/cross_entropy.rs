//! One log-probability per row and its gradient, compared with the host, and Burn's cross entropy loss under Amp.

use burn::{
    nn::loss::CrossEntropyLossConfig,
    tensor::{
        DType, Int, Tensor, TensorData, TensorMetadata,
        activation::log_softmax,
        backend::AutodiffBackend,
        ops::{IntTensor, IntTensorOps},
    },
};
use burn_amp::config::{Class, Op};
use burn_amp_kernels::cross_entropy;
use burn_amp_tests::{
    AmpAutodiff, Compute, Plain, PlainAutodiff, References, computing_in, in_f16, policy, within,
};

use super::rows::{
    Float, SHAPES, assert_near, dtypes, epsilon, last, layouts, noise, noisy, read, right_halves,
    slack, tensor, wide,
};

type B = AmpAutodiff;

/// One target per row: the first class, the last one, and others.
fn targets(rows: usize, n: usize) -> Vec<i64> {
    (0..rows)
        .map(|row| [0, n - 1, row * 7 % n][row % 3] as i64)
        .collect()
}

fn on_device(targets: &[i64], shape: &[usize]) -> IntTensor<Plain> {
    let data = TensorData::new(targets.to_vec(), shape.to_vec());
    let dtype = Tensor::<Plain, 1, Int>::from_ints([0], &Default::default()).dtype();
    Plain::int_from_data(data.convert_dtype(dtype), &Default::default())
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

fn assert_at(x: &Float) {
    let n = last(x);
    let mut of_rows = x.shape().as_slice().to_vec();
    *of_rows.last_mut().unwrap() = 1;
    let rows: usize = of_rows.iter().product();
    let targets = targets(rows, n);
    let grad = noise(rows, 9);
    let statistics = || {
        burn_amp_kernels::log_softmax::forward::<Plain>(
            x.clone(),
            of_rows.len() - 1,
            DType::F32.into(),
        )
        .log_sum_exp
    };
    let indices = || on_device(&targets, &of_rows);
    let g = || tensor(&grad, &of_rows, DType::F32);
    let values = read(x);
    let slack = slack(DType::F32, n);

    let output = burn_amp_kernels::log_softmax::forward::<Plain>(
        x.clone(),
        of_rows.len() - 1,
        wide(x.dtype()).into(),
    )
    .output;
    let found = cross_entropy::forward::<Plain>(output, x.clone(), statistics(), indices());
    assert_eq!(
        (found.dtype(), found.shape().as_slice()),
        (wide(x.dtype()), &of_rows[..])
    );
    let expected: Vec<_> = values
        .chunks(n)
        .zip(&targets)
        .map(|(x, target)| x[*target as usize] - log_sum_exp(x))
        .collect();
    assert_near("at", &found, &expected, |i| {
        slack + 4.0 * f64::from(f32::EPSILON) * expected[i].abs().max(16.0)
    });

    let expected: Vec<_> = values
        .chunks(n)
        .zip(&targets)
        .zip(&grad)
        .flat_map(|((x, target), g)| {
            let log_sum_exp = log_sum_exp(x);
            x.iter().enumerate().map(move |(at, x)| {
                let one_hot = f64::from(u8::from(at as i64 == *target));
                g * (one_hot - (x - log_sum_exp).exp())
            })
        })
        .collect();
    for dx in [
        cross_entropy::backward::<Plain>(x.clone(), statistics(), indices(), g()),
        cross_entropy::backward::<References>(x.clone(), statistics(), indices(), g()),
    ] {
        assert_eq!((dx.dtype(), dx.shape()), (x.dtype(), x.shape()));
        // |g| is at most 4; the relative error of a probability is the absolute error of its exponent.
        assert_near("at backward", &dx, &expected, |_| 4.0 * slack);
    }
}

#[test]
fn rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            assert_at(&noisy(shape, 1, dtype));
        }
    }
}

#[test]
fn layouts_do_not_matter() {
    for dtype in dtypes() {
        assert_at(&right_halves(1, dtype));
        for x in layouts(3, dtype) {
            assert_at(&x);
        }
    }
}

/// The loss and the weights' gradient under Burn's cross entropy, with its configuration changed by `with`.
fn loss_and_gradient<B: AutodiffBackend>(
    with: impl Fn(CrossEntropyLossConfig) -> CrossEntropyLossConfig,
) -> (f32, Vec<f32>) {
    let device = Default::default();
    let [rows, inner, n] = [12, 8, 40];
    let values = |elements, seed, shape: [usize; 2]| {
        let values: Vec<f32> = noise(elements, seed)
            .into_iter()
            .map(|x| x as f32)
            .collect();
        Tensor::<B, 2>::from_data(TensorData::new(values, shape), &device)
    };
    let weight = values(inner * n, 1, [inner, n]).require_grad();
    // The logits are stored low, like those of a linear layer.
    let logits = values(rows * inner, 2, [rows, inner]).matmul(weight.clone());
    let data = TensorData::new(targets(rows, n), [rows]);
    let targets = Tensor::<B, 1, Int>::from_data(data, &device);
    let loss = with(CrossEntropyLossConfig::new())
        .init(&device)
        .forward(logits, targets);
    let grads = loss.backward();
    let gradient = weight.grad(&grads).unwrap().into_data().to_vec().unwrap();
    (loss.into_data().to_vec::<f32>().unwrap()[0], gradient)
}

policy!(Fused, computing_in(Compute::F16));
policy!(
    /// A policy under which the log-softmax has a low result, so that the cross entropy is not fused with it.
    Apart,
    in_f16(|it| it.ops = [(Op::log_softmax, Class::Widest)].into())
);

#[test]
fn burns_cross_entropy_has_the_loss_and_the_gradient_of_f32() {
    let _policy = burn_amp_tests::enter::<Fused>();
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
    let _policy = burn_amp_tests::enter::<Fused>();
    let device = Default::default();
    let values: Vec<f32> = noise(24, 3).into_iter().map(|x| x as f32).collect();
    let x = Tensor::<B, 2>::from_data(TensorData::new(values, [4, 6]), &device);
    let x = x.matmul(Tensor::eye(6, &device));
    for dim in 0..2 {
        let log = log_softmax(x.clone(), dim);
        let all = log.clone().into_data().to_vec::<f32>().unwrap();
        for (dim, shape) in [
            (0, [1, 6]),
            (0, [4, 6]),
            (1, [4, 1]),
            (1, [4, 3]),
            (1, [4, 6]),
        ] {
            let indices: Vec<i64> = (0..shape[0] * shape[1]).map(|at| at as i64 % 4).collect();
            let at =
                Tensor::<B, 2, Int>::from_data(TensorData::new(indices.clone(), shape), &device);
            let found = log
                .clone()
                .gather(dim, at)
                .into_data()
                .to_vec::<f32>()
                .unwrap();
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
    let _policy = burn_amp_tests::enter::<Fused>();
    fn loss<B: AutodiffBackend>() -> f32 {
        let device = Default::default();
        let logits = Tensor::<B, 2>::from_floats([[0.25, 1.0, -0.5], [2.0, 0.0, 0.75]], &device);
        let logits = logits + 10_000.0;
        let targets = Tensor::from_ints([1, 0], &device);
        let loss = CrossEntropyLossConfig::new()
            .init(&device)
            .forward(logits, targets);
        loss.into_data().to_vec::<f32>().unwrap()[0]
    }
    let (found, expected) = (loss::<B>(), loss::<PlainAutodiff>());
    assert!(
        (found - expected).abs() <= 8.0 * f32::EPSILON,
        "{found}, {expected}"
    );
}
