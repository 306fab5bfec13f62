//! Log-softmax, compared with the host, and its gradient, compared with finite differences and with Burn's.

use burn::tensor::{
    DType, Tensor, TensorData, TensorMetadata, TensorPrimitive,
    ops::{ActivationOps, FloatTensor},
};
use burn_amp_kernels::log_softmax;
use burn_amp_tests::{Plain, PlainAutodiff, References};

use super::rows::{
    Float, SHAPES, along, assert_near, derivatives, dtypes, epsilon, last, layouts, noise, noisy,
    read, right_halves, slack, special_rows, tensor, wide,
};

/// The largest element of a row, and `log(sum(exp(x - max)))`.
fn statistics(x: &[f64]) -> [f64; 2] {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    [max, x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()]
}

fn on_host(x: &[f64]) -> Vec<f64> {
    let [max, log_sum] = statistics(x);
    x.iter().map(|x| x - max - log_sum).collect()
}

/// The gradient, `g - exp(x - log_sum_exp) sum(g)`, row by row.
fn backward_on_host(x: &[f64], g: &[f64], n: usize) -> Vec<f64> {
    let rows = x.chunks(n).zip(g.chunks(n));
    rows.flat_map(|(x, g)| {
        let sum: f64 = g.iter().sum();
        let log_probabilities = on_host(x).into_iter();
        log_probabilities
            .zip(g)
            .map(move |(log, g)| g - log.exp() * sum)
    })
    .collect()
}

fn with_one_at(shape: &[usize], dim: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[dim] = 1;
    shape
}

fn assert_forward(what: &str, x: &Float, dim: usize, dtype: DType) {
    let shape = x.shape();
    let found = log_softmax::forward::<Plain>(x.clone(), dim, dtype.into());
    assert_eq!(
        (found.output.dtype(), found.output.shape()),
        (dtype, shape.clone()),
        "{what}"
    );
    let of_rows = with_one_at(shape.as_slice(), dim);
    assert_eq!(found.log_sum_exp.dtype(), wide(x.dtype()), "{what}");
    assert_eq!(found.log_sum_exp.shape().as_slice(), of_rows, "{what}");

    let x = read(x);
    // The logarithm turns a relative error into an absolute one. In addition, numbers up to 16 are rounded, or larger
    // ones in the special rows.
    let slack = slack(DType::F32, shape[dim]);
    let tolerance =
        |expected: f64| slack + 4.0 * f64::from(f32::EPSILON) * expected.abs().max(16.0);
    let expected = along(&x, shape.as_slice(), dim, on_host);
    assert_near(what, &found.output, &expected, |i| tolerance(expected[i]));
    let log_sum_exp = |x: &[f64]| statistics(x).iter().sum();
    let everywhere = along(&x, shape.as_slice(), dim, |x| vec![log_sum_exp(x); x.len()]);
    let stride: usize = shape.as_slice()[dim + 1..].iter().product();
    let expected: Vec<_> = (0..of_rows.iter().product())
        .map(|row| everywhere[row / stride * shape[dim] * stride + row % stride])
        .collect();
    assert_near(what, &found.log_sum_exp, &expected, |i| {
        tolerance(expected[i])
    });
}

fn assert_backward(x: &Float, g: &Float) {
    let (n, dim) = (last(x), x.shape().num_dims() - 1);
    let log_sum_exp = log_softmax::forward::<Plain>(x.clone(), dim, x.dtype().into()).log_sum_exp;
    let dx = log_softmax::backward::<Plain>(x.clone(), log_sum_exp, g.clone(), dim);
    assert_eq!((dx.dtype(), dx.shape()), (x.dtype(), x.shape()));
    let slack = slack(DType::F32, n);
    let (x, g) = (read(x), read(g));
    let expected = backward_on_host(&x, &g, n);
    let probabilities = along(&x, &[x.len() / n, n], 1, on_host);
    // The sum of |g| over a row is at most 4 n.
    let tolerance = |i: usize| slack * (4.0 + 4.0 * n as f64 * probabilities[i].exp());
    assert_near("log-softmax backward", &dx, &expected, tolerance);
}

#[test]
fn rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            let x = noisy(shape, 1, dtype);
            assert_forward("log-softmax", &x, shape.len() - 1, dtype);
        }
    }
}

#[test]
fn gradients_of_rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            assert_backward(&noisy(shape, 1, dtype), &noisy(shape, 2, dtype));
        }
    }
}

#[test]
fn output_and_gradient_may_have_another_dtype_than_the_input() {
    for dtype in dtypes() {
        for other in dtypes() {
            assert_forward("dtypes", &noisy(&[3, 40], 1, dtype), 1, other);
            assert_backward(&noisy(&[3, 40], 1, dtype), &noisy(&[3, 40], 2, other));
        }
    }
}

#[test]
fn rows_may_be_apart_in_memory() {
    for dtype in dtypes() {
        let x = right_halves(1, dtype);
        assert_forward("halves", &x, 1, dtype);
        assert_backward(&x, &right_halves(2, dtype));
        assert_backward(&x, &noisy(&[6, 128], 2, dtype));
    }
}

#[test]
fn layouts_and_dimensions_do_not_matter() {
    for dtype in dtypes() {
        for (i, x) in layouts(3, dtype).iter().enumerate() {
            for dim in 0..3 {
                assert_forward(&format!("layout {i} along {dim}"), x, dim, DType::F32);
            }
            for g in layouts(4, dtype) {
                assert_backward(x, &g);
            }
        }
    }
}

#[test]
fn along_other_dimensions_gradients_are_those_of_the_transposed() {
    let (x, g) = (noisy(&[5, 7], 1, DType::F32), noisy(&[5, 7], 2, DType::F32));
    let transposed =
        |values: &[f64]| -> Vec<f64> { (0..35).map(|i| values[i % 5 * 7 + i / 5]).collect() };
    let expected = backward_on_host(&transposed(&read(&x)), &transposed(&read(&g)), 5);
    let log_sum_exp = log_softmax::forward::<Plain>(x.clone(), 0, DType::F32.into()).log_sum_exp;
    let dx = log_softmax::backward::<Plain>(x, log_sum_exp, g, 0);
    assert_eq!(dx.shape().as_slice(), [5, 7]);
    let dx = tensor(&transposed(&read(&dx)), &[7, 5], DType::F32);
    assert_near("dim 0", &dx, &expected, |_| slack(DType::F32, 5) * 24.0);
}

#[test]
fn masks_infinities_and_nan_are_as_in_burn() {
    for dtype in dtypes() {
        for n in [1, 2, 5, 64, 300, 5000] {
            let rows = special_rows(dtype, n);
            let x = tensor(&rows.concat(), &[rows.len(), n], dtype);
            // The result is in F32, because it may be outside the range of F16.
            let output = wide(dtype);
            assert_forward("special", &x, 1, output);
            let reference = log_softmax::forward::<References>(x.clone(), 1, output.into());
            let reference = read(&reference.output);
            let found = log_softmax::forward::<Plain>(x, 1, output.into()).output;
            let slack = slack(dtype, n);
            let tolerance = |i: usize| slack * reference[i].abs().max(16.0);
            assert_near("reference", &found, &reference, tolerance);
        }
    }
}

// On CUDA, making and reading a tensor without elements fails in burn-cubecl: a launch without cubes is refused.
#[cfg(not(feature = "cuda"))]
#[test]
fn nothing_comes_of_nothing() {
    for dtype in dtypes() {
        for shape in [&[0, 5][..], &[3, 0, 5]] {
            let x = || tensor(&[], shape, dtype);
            let dim = shape.len() - 1;
            let of_rows = with_one_at(shape, dim);
            let found = log_softmax::forward::<Plain>(x(), dim, DType::F32.into());
            assert_eq!(found.log_sum_exp.shape().as_slice(), of_rows);
            let dx = log_softmax::backward::<Plain>(x(), found.log_sum_exp, x(), dim);
            for (tensor, dtype) in [(dx, dtype), (found.output, DType::F32)] {
                assert_eq!((tensor.dtype(), tensor.shape().as_slice()), (dtype, shape));
                assert!(read(&tensor).is_empty());
            }
        }
    }
}

const SHAPE: [usize; 2] = [3, 5];

/// The loss `sum(w y) + sum(v y²)`, which uses the output twice. |y| is at most 10, so gradients are at most 0.5 + 10.
fn loss(y: Tensor<PlainAutodiff, 2>) -> Tensor<PlainAutodiff, 1> {
    let [w, v] = weights().map(|weights| {
        let data = TensorData::new(weights, SHAPE);
        Tensor::from_data(data, (&Default::default(), DType::F32))
    });
    let y = y.cast(DType::F32);
    (y.clone() * w).sum() + (y.clone() * y * v).sum()
}

fn loss_on_host(y: &[f64]) -> f64 {
    let [w, v] = weights();
    let terms = y.iter().zip(w).zip(v);
    terms.map(|((y, w), v)| y * w + y * y * v).sum()
}

/// Weights in [-0.5, 0.5).
fn weights() -> [Vec<f64>; 2] {
    [7, 8].map(|seed| noise(15, seed).iter().map(|x| x / 8.0).collect())
}

/// The gradient of the loss.
fn gradient(
    log_softmax: fn(FloatTensor<PlainAutodiff>) -> FloatTensor<PlainAutodiff>,
    x: &[f64],
    dtype: DType,
) -> Float {
    let data = TensorData::new(x.to_vec(), SHAPE);
    let x = Tensor::<PlainAutodiff, 2>::from_data(data, (&Default::default(), dtype));
    let x = x.require_grad();
    let y = log_softmax(x.clone().into_primitive().tensor());
    let y = Tensor::from_primitive(TensorPrimitive::Float(y));
    let gradient = x.grad(&loss(y).backward()).unwrap();
    gradient.into_primitive().tensor()
}

fn in_f32(x: FloatTensor<PlainAutodiff>) -> FloatTensor<PlainAutodiff> {
    log_softmax::forward::<PlainAutodiff>(x, 1, DType::F32.into()).output
}

fn in_own_dtype(x: FloatTensor<PlainAutodiff>) -> FloatTensor<PlainAutodiff> {
    let dtype = x.dtype().into();
    log_softmax::forward::<PlainAutodiff>(x, 1, dtype).output
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for dtype in dtypes() {
        let x = read(&noisy(&SHAPE, 9, dtype));
        let expected = derivatives(|x| loss_on_host(&along(x, &SHAPE, 1, on_host)), &x);
        let largest = 10.5;
        // An F32 output has an F32 gradient, so that there is one rounding, at the end.
        let dx = gradient(in_f32, &x, dtype);
        assert_eq!(dx.dtype(), dtype);
        assert_near("from F32", &dx, &expected, |_| {
            largest * slack(DType::F32, 5)
        });
        // The output and its gradient are rounded to the dtype, and 5 gradients are summed.
        let dx = gradient(in_own_dtype, &x, dtype);
        let tolerance = largest * (2.0 * epsilon(dtype) + 5.0 * slack(DType::F32, 5));
        assert_near("from its dtype", &dx, &expected, |_| tolerance);
    }
}

#[test]
fn the_gradient_is_that_of_burns_log_softmax() {
    let x = noise(15, 9);
    let burns = |x| <PlainAutodiff as ActivationOps<PlainAutodiff>>::log_softmax(x, 1);
    let expected = gradient(burns, &x, DType::F32);
    let dx = gradient(in_f32, &x, DType::F32);
    assert_near("Burn's", &dx, &read(&expected), |_| {
        10.5 * slack(DType::F32, 5)
    });
}

#[test]
fn of_an_untracked_input_nothing_is_tracked() {
    let data = TensorData::new(noise(15, 9), SHAPE);
    let x = Tensor::<PlainAutodiff, 2>::from_data(data, &Default::default());
    let y = in_f32(x.into_primitive().tensor());
    let y = Tensor::<PlainAutodiff, 2>::from_primitive(TensorPrimitive::Float(y));
    // Another factor is tracked and has a gradient, so the loss has a backward pass.
    let factor = y.clone().detach().require_grad();
    let gradients = (y.clone() * factor.clone()).sum().backward();
    assert!(!y.is_require_grad() && y.grad(&gradients).is_none());
    assert!(factor.grad(&gradients).is_some());
}
