//! Softmax, compared with the host, and its gradient, compared with finite differences and with Burn's.

use burn::tensor::{
    DType, Tensor, TensorData, TensorMetadata, TensorPrimitive,
    ops::{ActivationOps, FloatTensor},
};
use burn_amp_kernels::softmax::{self, ScaleMask};
use burn_amp_tests::{Plain, PlainAutodiff, References};

use super::rows::{
    Float, SHAPES, along, assert_near, derivatives, dtypes, epsilon, last, layouts, noise, noisy,
    read, right_halves, slack, special_rows, tensor,
};

/// The softmax of a row, `exp(x - max) / sum(exp(x - max))`.
fn on_host(x: &[f64]) -> Vec<f64> {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    let exp: Vec<_> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|exp| exp / sum).collect()
}

/// The gradient, `y (g - sum(g y) / sum(y))`, row by row.
fn backward_on_host(y: &[f64], g: &[f64], n: usize) -> Vec<f64> {
    let rows = y.chunks(n).zip(g.chunks(n));
    rows.flat_map(|(y, g)| {
        let sum: f64 = y.iter().zip(g).map(|(y, g)| y * g).sum();
        let mean = sum / y.iter().sum::<f64>();
        y.iter().zip(g).map(move |(y, g)| y * (g - mean))
    })
    .collect()
}

/// The sizes of the numbers that cancel in each row of the gradient, where |g| is at most 4. Where `y` is no output of
/// a softmax, its sum may be nearly zero.
fn sizes(y: &[f64], g: &[f64], n: usize) -> Vec<f64> {
    let rows = y.chunks(n).zip(g.chunks(n));
    let size = |(y, g): (&[f64], &[f64])| {
        let products: f64 = y.iter().zip(g).map(|(y, g)| (y * g).abs()).sum();
        let weight = y.iter().sum::<f64>().abs();
        let condition = y.iter().map(|y| y.abs()).sum::<f64>() / weight;
        4.0 + products / weight * (1.0 + condition)
    };
    rows.map(size).collect()
}

fn assert_forward(what: &str, x: &Float, dim: usize) {
    let shape = x.shape();
    let y = softmax::forward::<Plain>(x.clone(), dim, ScaleMask::none());
    assert_eq!((y.dtype(), y.shape()), (x.dtype(), shape.clone()), "{what}");
    let expected = along(&read(x), shape.as_slice(), dim, on_host);
    let slack = slack(x.dtype(), shape[dim]);
    assert_near(what, &y, &expected, |i| slack * expected[i]);
}

#[test]
fn rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            assert_forward("softmax", &noisy(shape, 1, dtype), shape.len() - 1);
        }
    }
}

#[test]
fn gradients_of_rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            let y = softmax::forward::<Plain>(
                noisy(shape, 1, dtype),
                shape.len() - 1,
                ScaleMask::none(),
            );
            assert_backward(&y, &noisy(shape, 2, dtype));
        }
    }
}

fn assert_backward(y: &Float, g: &Float) {
    let n = last(y);
    let dx = softmax::backward::<Plain>(
        y.clone(),
        g.clone(),
        y.shape().num_dims() - 1,
        ScaleMask::none(),
    );
    assert_eq!((dx.dtype(), dx.shape()), (y.dtype(), y.shape()));
    let slack = slack(y.dtype(), n);
    let (y, g) = (read(y), read(g));
    let expected = backward_on_host(&y, &g, n);
    let sizes = sizes(&y, &g, n);
    let tolerance = |i: usize| slack * y[i].abs() * sizes[i / n];
    assert_near("softmax backward", &dx, &expected, tolerance);
}

/// Although the rounded output does not quite add up to 1.
#[test]
fn what_a_row_of_the_gradient_has_in_common_cancels() {
    for dtype in dtypes() {
        for n in [2, 16, 33, 1000, 20_000] {
            let y = softmax::forward::<Plain>(noisy(&[3, n], 1, dtype), 1, ScaleMask::none());
            let g = tensor(&vec![3.0; 3 * n], &[3, n], dtype);
            let dx = softmax::backward::<Plain>(y.clone(), g, 1, ScaleMask::none());
            let (y, slack) = (read(&y), slack(dtype, n));
            assert_near("in common", &dx, &vec![0.0; 3 * n], |i| 3.0 * slack * y[i]);
        }
    }
}

#[test]
fn a_row_without_weights_has_no_gradient() {
    for dtype in dtypes() {
        let zeros = tensor(&[0.0; 10], &[2, 5], dtype);
        let dx = softmax::backward::<Plain>(zeros, noisy(&[2, 5], 1, dtype), 1, ScaleMask::none());
        assert_eq!(read(&dx), [0.0; 10], "{dtype:?}");
    }
}

#[test]
fn rows_may_be_apart_in_memory() {
    for dtype in dtypes() {
        let x = right_halves(1, dtype);
        assert_forward("halves", &x, 1);
        assert_backward(&x, &right_halves(2, dtype));
        assert_backward(&x, &noisy(&[6, 128], 2, dtype));
    }
}

#[test]
fn layouts_and_dimensions_do_not_matter() {
    for dtype in dtypes() {
        for (i, x) in layouts(3, dtype).iter().enumerate() {
            for dim in 0..3 {
                assert_forward(&format!("layout {i} along {dim}"), x, dim);
            }
            for g in layouts(4, dtype) {
                assert_backward(x, &g);
            }
        }
    }
}

#[test]
fn a_gradient_may_have_another_dtype_than_the_output() {
    for dtype in dtypes() {
        let y = softmax::forward::<Plain>(noisy(&[3, 40], 1, DType::F32), 1, ScaleMask::none());
        assert_backward(&y, &noisy(&[3, 40], 2, dtype));
    }
}

#[test]
fn along_other_dimensions_gradients_are_those_of_the_transposed() {
    let (y, g) = (noisy(&[5, 7], 1, DType::F32), noisy(&[5, 7], 2, DType::F32));
    let transposed =
        |values: &[f64]| -> Vec<f64> { (0..35).map(|i| values[i % 5 * 7 + i / 5]).collect() };
    let (y_rows, g_rows) = (transposed(&read(&y)), transposed(&read(&g)));
    let expected = backward_on_host(&y_rows, &g_rows, 5);
    let sizes = sizes(&y_rows, &g_rows, 5);
    let dx = softmax::backward::<Plain>(y, g, 0, ScaleMask::none());
    assert_eq!(dx.shape().as_slice(), [5, 7]);
    let dx = tensor(&transposed(&read(&dx)), &[7, 5], DType::F32);
    assert_near("dim 0", &dx, &expected, |i| {
        slack(DType::F32, 5) * y_rows[i].abs() * sizes[i / 5]
    });
}

#[test]
fn masks_infinities_and_nan_are_as_in_burn() {
    for dtype in dtypes() {
        for n in [1, 2, 5, 64, 300, 5000] {
            let rows = special_rows(dtype, n);
            let x = tensor(&rows.concat(), &[rows.len(), n], dtype);
            assert_forward("special", &x, 1);
            let reference = read(&softmax::forward::<References>(
                x.clone(),
                1,
                ScaleMask::none(),
            ));
            let slack = slack(dtype, n);
            let y = softmax::forward::<Plain>(x, 1, ScaleMask::none());
            assert_near("reference", &y, &reference, |i| slack * reference[i]);
        }
    }
}

// On CUDA, making and reading a tensor without elements fails in burn-cubecl: a launch without cubes is refused.
#[cfg(not(feature = "cuda"))]
#[test]
fn nothing_comes_of_nothing() {
    for dtype in dtypes() {
        for (shape, dim) in [(&[0][..], 0), (&[0, 5], 1), (&[3, 0, 5], 2), (&[0, 5], 0)] {
            let x = || tensor(&[], shape, dtype);
            for y in [
                softmax::forward::<Plain>(x(), dim, ScaleMask::none()),
                softmax::backward::<Plain>(x(), x(), dim, ScaleMask::none()),
            ] {
                assert_eq!((y.dtype(), y.shape().as_slice()), (dtype, shape));
                assert!(read(&y).is_empty());
            }
        }
    }
}

const SHAPE: [usize; 2] = [3, 5];

/// The loss `sum(w y) + sum(v y²)`, which uses the output twice. Gradients are at most 1.5.
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

fn in_graph(x: FloatTensor<PlainAutodiff>, dim: usize) -> FloatTensor<PlainAutodiff> {
    softmax::forward::<PlainAutodiff>(x, dim, ScaleMask::none())
}

/// The gradient of the loss.
fn gradient(
    softmax: fn(FloatTensor<PlainAutodiff>, usize) -> FloatTensor<PlainAutodiff>,
    x: &[f64],
    dtype: DType,
) -> Float {
    let data = TensorData::new(x.to_vec(), SHAPE);
    let x = Tensor::<PlainAutodiff, 2>::from_data(data, (&Default::default(), dtype));
    let x = x.require_grad();
    let y = softmax(x.clone().into_primitive().tensor(), 1);
    let y = Tensor::from_primitive(TensorPrimitive::Float(y));
    let gradient = x.grad(&loss(y).backward()).unwrap();
    gradient.into_primitive().tensor()
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for dtype in dtypes() {
        let x = read(&noisy(&SHAPE, 9, dtype));
        let expected = derivatives(|x| loss_on_host(&along(x, &SHAPE, 1, on_host)), &x);
        let dx = gradient(in_graph, &x, dtype);
        assert_eq!(dx.dtype(), dtype);
        // The output and its gradient are rounded to the dtype, and the loss is computed in F32.
        let tolerance = 1.5 * (2.0 * epsilon(dtype) + slack(DType::F32, 5));
        assert_near("finite differences", &dx, &expected, |_| tolerance);
    }
}

#[test]
fn the_gradient_is_that_of_burns_softmax() {
    let x = noise(15, 9);
    let expected = gradient(
        <PlainAutodiff as ActivationOps<PlainAutodiff>>::softmax,
        &x,
        DType::F32,
    );
    let dx = gradient(in_graph, &x, DType::F32);
    assert_near("Burn's", &dx, &read(&expected), |_| {
        slack(DType::F32, 5) * 1.5
    });
}

#[test]
fn of_an_untracked_input_nothing_is_tracked() {
    let data = TensorData::new(noise(15, 9), SHAPE);
    let x = Tensor::<PlainAutodiff, 2>::from_data(data, &Default::default());
    let y = softmax::forward::<PlainAutodiff>(x.into_primitive().tensor(), 1, ScaleMask::none());
    let y = Tensor::<PlainAutodiff, 2>::from_primitive(TensorPrimitive::Float(y));
    // Another factor is tracked and has a gradient, so the loss has a backward pass.
    let factor = y.clone().detach().require_grad();
    let gradients = (y.clone() * factor.clone()).sum().backward();
    assert!(!y.is_require_grad() && y.grad(&gradients).is_none());
    assert!(factor.grad(&gradients).is_some());
}
