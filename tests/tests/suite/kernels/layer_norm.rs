//! Layer norm, compared with the host, and its gradients, compared with finite differences and with Burn's.

use burn::tensor::{
    DType, Tensor, TensorData, TensorMetadata, TensorPrimitive,
    ops::{FloatTensor, FloatTensorOps, ModuleOps},
};
use burn_amp_kernels::layer_norm;
use burn_amp_tests::{Plain, PlainAutodiff, References};

use super::rows::{
    Float, SHAPES, along, assert_near, derivatives, dtypes, epsilon, last, layouts, noise, noisy,
    read, right_halves, slack, special_rows, tensor, wide,
};

const EPSILON: f64 = 1e-5;

/// The mean of a row and its inverse standard deviation, `1 / sqrt(var + ε)`.
fn statistics(x: &[f64]) -> [f64; 2] {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let var = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    [mean, 1.0 / (var + EPSILON).sqrt()]
}

/// The normalized row, `(x - mean) / sqrt(var + ε)`.
fn normalized(x: &[f64]) -> Vec<f64> {
    let [mean, inverse_std] = statistics(x);
    x.iter().map(|x| (x - mean) * inverse_std).collect()
}

/// The output of a row, computed on the host.
fn on_host(x: &[f64], gamma: &[f64], beta: Option<&[f64]>) -> Vec<f64> {
    let normalized = normalized(x).into_iter().zip(gamma).enumerate();
    normalized
        .map(|(i, (x, gamma))| x * gamma + beta.map_or(0.0, |beta| beta[i]))
        .collect()
}

/// γ and β, with values in [-4, 4).
fn parameters(n: usize, dtype: DType) -> [Float; 2] {
    [11, 12].map(|seed| noisy(&[n], seed, dtype))
}

fn assert_forward(what: &str, x: &Float, parameters: [Float; 2]) {
    let (shape, n) = (x.shape(), last(x));
    let values = read(x);
    let rows: Vec<_> = values.chunks(n).collect();
    let [gamma, beta] = parameters;
    let [gammas, betas] = [&gamma, &beta].map(read);
    // How much the rounding error of the mean matters: it is divided by the standard deviation. No number exceeds 4.
    let slack = slack(x.dtype(), n);
    let spread: Vec<_> = rows.iter().map(|x| 1.0 + 4.0 * statistics(x)[1]).collect();
    for has_beta in [true, false] {
        let beta = has_beta.then(|| beta.clone());
        let found = layer_norm::forward::<Plain>(x.clone(), gamma.clone(), beta, EPSILON, None);
        assert_eq!(
            (found.output.dtype(), found.output.shape()),
            (x.dtype(), shape.clone())
        );
        let expected: Vec<_> = rows
            .iter()
            .flat_map(|x| on_host(x, &gammas, has_beta.then_some(&betas[..])))
            .collect();
        let tolerance = |i: usize| slack * (spread[i / n] + expected[i].abs()) * 4.0;
        assert_near(what, &found.output, &expected, tolerance);

        let mut of_rows = shape.as_slice().to_vec();
        of_rows[shape.num_dims() - 1] = 1;
        for (i, (tensor, size)) in [(found.mean, 4.0), (found.inverse_std, 1.0)]
            .into_iter()
            .enumerate()
        {
            assert_eq!(tensor.dtype(), wide(x.dtype()), "{what}");
            assert_eq!(tensor.shape().as_slice(), of_rows, "{what}");
            let expected: Vec<_> = rows.iter().map(|x| statistics(x)[i]).collect();
            let tolerance = |row: usize| {
                slack
                    * size
                    * if i == 0 {
                        1.0
                    } else {
                        expected[row] * spread[row]
                    }
            };
            assert_near(what, &tensor, &expected, tolerance);
        }
    }
}

fn assert_backward(x: &Float, g: &Float) {
    let (shape, n, dtype) = (x.shape(), last(x), x.dtype());
    let rows = shape.num_elements() / n;
    let [gamma, _] = parameters(n, wide(dtype));
    let mut of_rows = shape.as_slice().to_vec();
    of_rows[shape.num_dims() - 1] = 1;
    let (values, gradients, gammas) = (read(x), read(g), read(&gamma));
    let statistics: Vec<_> = values.chunks(n).map(statistics).collect();
    let [mean, inverse_std] = [0, 1].map(|i| {
        let values: Vec<_> = statistics.iter().map(|row| row[i]).collect();
        tensor(&values, &of_rows, wide(dtype))
    });
    let [found_dx, found_dgamma, found_dbeta] =
        layer_norm::backward::<Plain>(x.clone(), gamma, mean, inverse_std, g.clone());

    let mut dx = Vec::with_capacity(values.len());
    let [mut dgamma, mut dbeta, mut gamma_size, mut beta_size] = [(); 4].map(|()| vec![0.0; n]);
    for ((x, g), [_, inverse_std]) in values.chunks(n).zip(gradients.chunks(n)).zip(&statistics) {
        let normalized = normalized(x);
        let scaled: Vec<_> = g.iter().zip(&gammas).map(|(g, gamma)| g * gamma).collect();
        let mean = scaled.iter().sum::<f64>() / n as f64;
        let products = scaled.iter().zip(&normalized).map(|(g, x)| g * x);
        let along = products.sum::<f64>() / n as f64;
        for i in 0..n {
            dx.push((scaled[i] - mean - normalized[i] * along) * inverse_std);
            dgamma[i] += g[i] * normalized[i];
            dbeta[i] += g[i];
            gamma_size[i] += (g[i] * normalized[i]).abs() + 4.0 * g[i].abs() * inverse_std;
            beta_size[i] += g[i].abs();
        }
    }
    assert_eq!((found_dx.dtype(), found_dx.shape()), (dtype, shape));
    let row = slack(dtype, n);
    assert_near("dx", &found_dx, &dx, |i| {
        let inverse_std = statistics[i / n][1];
        // |g γ| is at most 16.
        row * 16.0 * inverse_std * (1.0 + 4.0 * inverse_std)
    });
    let column = slack(dtype, rows);
    for (tensor, expected, size) in [
        (found_dgamma, dgamma, gamma_size),
        (found_dbeta, dbeta, beta_size),
    ] {
        assert_eq!(tensor.dtype(), wide(dtype));
        assert_eq!(tensor.shape().as_slice(), [n]);
        assert_near("parameters", &tensor, &expected, |i| column * size[i]);
    }
}

#[test]
fn rows_of_any_length_and_number_are_as_the_host_computes() {
    for dtype in dtypes() {
        for shape in SHAPES {
            let x = noisy(shape, 1, dtype);
            assert_forward("layer norm", &x, parameters(last(&x), wide(dtype)));
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
fn rows_may_be_apart_in_memory() {
    for dtype in dtypes() {
        let x = right_halves(1, dtype);
        assert_forward("halves", &x, parameters(128, wide(dtype)));
        assert_backward(&x, &right_halves(2, dtype));
        assert_backward(&x, &noisy(&[6, 128], 2, dtype));
    }
}

#[test]
fn layouts_do_not_matter() {
    for dtype in dtypes() {
        for (i, x) in layouts(3, dtype).iter().enumerate() {
            assert_forward(&format!("layout {i}"), x, parameters(6, wide(dtype)));
            for g in layouts(4, dtype) {
                assert_backward(x, &g);
            }
        }
    }
}

#[test]
fn parameters_and_gradients_may_have_another_dtype_than_the_input() {
    for dtype in dtypes() {
        for other in dtypes() {
            let x = noisy(&[3, 40], 1, dtype);
            assert_forward("dtypes", &x, parameters(40, other));
            assert_backward(&x, &noisy(&[3, 40], 2, other));
        }
    }
}

#[test]
fn a_mean_far_from_zero_costs_no_variance() {
    // Computed as E[x²] - E[x]², the variance could be 0 or less: 1e8 is rounded to multiples of 8 in F32.
    let x: Vec<_> = noise(100, 1).iter().map(|x| 10_000.0 + x.round()).collect();
    let x = tensor(&x, &[1, 100], DType::F32);
    let found = layer_norm::forward::<Plain>(
        x.clone(),
        tensor(&[1.0; 100], &[100], DType::F32),
        None,
        EPSILON,
        None,
    );
    // The mean is rounded by 1e-3, and the standard deviation is 2.3.
    assert_near("far", &found.output, &normalized(&read(&x)), |_| 1e-3);
}

#[test]
fn infinities_and_nan_are_as_in_the_reference() {
    for dtype in dtypes() {
        for n in [1, 2, 5, 64, 300, 5000] {
            let rows = special_rows(dtype, n);
            let x = tensor(&rows.concat(), &[rows.len(), n], dtype);
            let [gamma, beta] = parameters(n, wide(dtype));
            let (of_x, of_gamma, of_beta) = (x.clone(), gamma.clone(), Some(beta.clone()));
            let reference =
                layer_norm::forward::<References>(of_x, of_gamma, of_beta, EPSILON, None);
            let found = layer_norm::forward::<Plain>(x, gamma, Some(beta), EPSILON, None);
            for (found, reference) in [
                (found.output, reference.output),
                (found.mean, reference.mean),
                (found.inverse_std, reference.inverse_std),
            ] {
                let nan =
                    |tensor| -> Vec<bool> { read(tensor).iter().map(|x| x.is_nan()).collect() };
                assert_eq!(nan(&found), nan(&reference), "{dtype:?} {n}");
            }
        }
    }
}

#[test]
fn a_copy_is_the_output_rounded_once() {
    for copy in dtypes().into_iter().filter(|dtype| dtype.size() == 2) {
        for n in [1, 3, 64, 768, 5000] {
            let x = noisy(&[3, n], 7, DType::F32);
            let [gamma, beta] = parameters(n, DType::F32);
            let found =
                layer_norm::forward::<Plain>(x, gamma, Some(beta), EPSILON, Some(copy.into()));
            let expected = Plain::float_cast(found.output, copy.into());
            let copied = found.copy.expect("it was asked for");
            assert_eq!(copied.dtype(), copy);
            assert_eq!(read(&copied), read(&expected), "{copy:?} {n}");
        }
    }
}

#[test]
fn nothing_comes_of_nothing() {
    for dtype in dtypes() {
        let x = || tensor(&[], &[0, 5], dtype);
        let [gamma, beta] = parameters(5, wide(dtype));
        let found = layer_norm::forward::<Plain>(x(), gamma.clone(), Some(beta), EPSILON, None);
        for of_rows in [&found.mean, &found.inverse_std] {
            assert_eq!(of_rows.shape().as_slice(), [0, 1]);
        }
        let (mean, inverse_std) = (found.mean, found.inverse_std);
        let [dx, dgamma, dbeta] = layer_norm::backward::<Plain>(x(), gamma, mean, inverse_std, x());
        for tensor in [found.output, dx] {
            assert_eq!(
                (tensor.dtype(), tensor.shape().as_slice()),
                (dtype, &[0, 5][..])
            );
            assert!(read(&tensor).is_empty());
        }
        for tensor in [dgamma, dbeta] {
            assert_eq!(tensor.dtype(), wide(dtype));
            assert_eq!(read(&tensor), [0.0; 5]);
        }
    }
}

const SHAPE: [usize; 2] = [3, 5];

type Operand<const D: usize> = Tensor<PlainAutodiff, D>;

fn leaf<const D: usize>(values: &[f64], shape: [usize; D], dtype: DType) -> Operand<D> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (&Default::default(), dtype))
}

fn primitive<const D: usize>(tensor: &Operand<D>) -> FloatTensor<PlainAutodiff> {
    tensor.clone().into_primitive().tensor()
}

/// Weights in [-0.5, 0.5).
fn weights() -> [Vec<f64>; 2] {
    [7, 8].map(|seed| noise(15, seed).iter().map(|x| x / 8.0).collect())
}

/// The loss `sum(w y) + sum(v y²)`, which uses the output twice.
fn loss(y: FloatTensor<PlainAutodiff>) -> Operand<1> {
    let [w, v] = weights().map(|weights| leaf(&weights, SHAPE, DType::F32));
    let y = Operand::<2>::from_primitive(TensorPrimitive::Float(y)).cast(DType::F32);
    (y.clone() * w).sum() + (y.clone() * y * v).sum()
}

fn loss_on_host(x: &[f64], gamma: &[f64], beta: Option<&[f64]>) -> f64 {
    let [w, v] = weights();
    let y = along(x, &SHAPE, 1, |x| on_host(x, gamma, beta));
    let terms = y.iter().zip(w).zip(v);
    terms.map(|((y, w), v)| y * w + y * y * v).sum()
}

/// x, γ and β after rounding to their dtypes.
fn operands(dtype: DType) -> [Vec<f64>; 3] {
    let parameter = |seed| read(&noisy(&[5], seed, wide(dtype)));
    [read(&noisy(&SHAPE, 9, dtype)), parameter(11), parameter(12)]
}

fn in_f32(
    x: FloatTensor<PlainAutodiff>,
    gamma: FloatTensor<PlainAutodiff>,
    beta: Option<FloatTensor<PlainAutodiff>>,
) -> FloatTensor<PlainAutodiff> {
    layer_norm::forward::<PlainAutodiff>(x, gamma, beta, EPSILON, None).output
}

fn burns(
    x: FloatTensor<PlainAutodiff>,
    gamma: FloatTensor<PlainAutodiff>,
    beta: Option<FloatTensor<PlainAutodiff>>,
) -> FloatTensor<PlainAutodiff> {
    <PlainAutodiff as ModuleOps<PlainAutodiff>>::layer_norm(x, gamma, beta, EPSILON)
}

/// A layer norm of x, γ and β.
type LayerNorm = fn(
    FloatTensor<PlainAutodiff>,
    FloatTensor<PlainAutodiff>,
    Option<FloatTensor<PlainAutodiff>>,
) -> FloatTensor<PlainAutodiff>;

/// The gradients of x, γ and β under the loss of a `layer_norm`.
fn gradients(layer_norm: LayerNorm, has_beta: bool, dtype: DType) -> Vec<Float> {
    let [x, gamma, beta] = operands(dtype);
    let x = leaf(&x, SHAPE, dtype).require_grad();
    let [gamma, beta] = [gamma, beta].map(|p| leaf(&p, [5], wide(dtype)).require_grad());
    let with = has_beta.then(|| primitive(&beta));
    let grads = loss(layer_norm(primitive(&x), primitive(&gamma), with)).backward();
    assert_eq!(beta.grad(&grads).is_some(), has_beta);
    let parameters = [Some(gamma), has_beta.then_some(beta)]
        .into_iter()
        .flatten();
    let dx = x.grad(&grads).unwrap().into_primitive().tensor();
    [dx].into_iter()
        .chain(parameters.map(|p| p.grad(&grads).unwrap().into_primitive().tensor()))
        .collect()
}

/// A bound of the terms of a gradient: |y| is at most 12, its gradient at most 12.5, γ at most 4, and x̂ at most 2.
const LARGEST: f64 = 12.5 * 4.0 * 2.0;

#[test]
fn gradients_are_those_of_finite_differences() {
    for dtype in dtypes() {
        for has_beta in [true, false] {
            let [x, gamma, beta] = operands(dtype);
            let beta = has_beta.then_some(&beta[..]);
            let mut expected = vec![
                derivatives(|x| loss_on_host(x, &gamma, beta), &x),
                derivatives(|gamma| loss_on_host(&x, gamma, beta), &gamma),
            ];
            if let Some(beta) = beta {
                expected.push(derivatives(
                    |beta| loss_on_host(&x, &gamma, Some(beta)),
                    beta,
                ));
            }
            let found = gradients(in_f32, has_beta, dtype);
            assert_eq!(found.len(), expected.len());
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.dtype(), if i == 0 { dtype } else { wide(dtype) });
                // The output and its gradient are rounded to the dtype; 1 / sqrt(var + ε) is less than 1.
                let tolerance = LARGEST * (epsilon(dtype) + slack(DType::F32, 5));
                assert_near("finite differences", found, expected, |_| tolerance);
            }
        }
    }
}

#[test]
fn gradients_are_those_of_burns_layer_norm() {
    for has_beta in [true, false] {
        let expected = gradients(burns, has_beta, DType::F32);
        let found = gradients(in_f32, has_beta, DType::F32);
        for (found, expected) in found.iter().zip(&expected) {
            assert_near("Burn's", found, &read(expected), |_| {
                LARGEST * slack(DType::F32, 5)
            });
        }
    }
}

#[test]
fn only_what_is_tracked_has_a_gradient() {
    let [x, gamma, beta] = operands(DType::F32);
    for tracked in 0..8 {
        let is_tracked = [0, 1, 2].map(|bit| tracked >> bit & 1 == 1);
        fn track<const D: usize>(operand: Operand<D>, is_tracked: bool) -> Operand<D> {
            if is_tracked {
                operand.require_grad()
            } else {
                operand
            }
        }
        let x = track(leaf(&x, SHAPE, DType::F32), is_tracked[0]);
        let gamma = track(leaf(&gamma, [5], DType::F32), is_tracked[1]);
        let beta = track(leaf(&beta, [5], DType::F32), is_tracked[2]);
        let y = in_f32(primitive(&x), primitive(&gamma), Some(primitive(&beta)));
        // Another tracked term, so that the loss always has a backward pass.
        let beside = leaf(&[1.0], [1], DType::F32).require_grad();
        let grads = (loss(y) + beside.clone()).backward();
        assert!(beside.grad(&grads).is_some());
        let found = [
            x.grad(&grads).is_some(),
            gamma.grad(&grads).is_some(),
            beta.grad(&grads).is_some(),
        ];
        assert_eq!(found, is_tracked);
    }
}
