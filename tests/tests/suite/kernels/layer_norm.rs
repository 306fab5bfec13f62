//! Layer norm and its gradients.

use burn_amp_kernels::layer_norm;
use burn_backend::ops::ModuleOps;

use super::prelude::*;

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

/// The output, the means and the inverse standard deviations, with or without β.
struct Forward {
    /// The dtype of γ and β, if it is not the one that kernels compute in.
    parameters: Option<DType>,
    has_beta: bool,
}

impl Forward {
    fn parameters(&self, x: &Float) -> (Float, Option<Float>) {
        let dtype = self.parameters.unwrap_or(wide(x.dtype()));
        let [gamma, beta] = parameters(last(x), dtype);
        (gamma, self.has_beta.then_some(beta))
    }
}

impl OnLines for Forward {
    const ALONG_ALL: bool = false;

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        let (gamma, beta) = self.parameters(&operands[0]);
        let found = layer_norm::forward::<B>(operands[0].clone(), gamma, beta, EPSILON, None);
        vec![found.output, found.mean, found.inverse_std]
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![operands[0], wide(operands[0]), wide(operands[0])]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let (gamma, beta) = self.parameters(&operands[0]);
        let (gamma, beta) = (read(&gamma), beta.as_ref().map(read));
        let slack = slack(operands[0].dtype(), operands[0].shape()[dim]);
        Box::new(move |line| {
            let [mean, inverse_std] = statistics(&line.of[0]);
            // How much the rounding error of the mean matters: it is divided by the standard deviation. No number exceeds 4.
            let spread = 1.0 + 4.0 * inverse_std;
            let near = |y: f64| (y, slack * (spread + y.abs()) * 4.0);
            let output = on_host(&line.of[0], &gamma, beta.as_deref());
            vec![
                output.into_iter().map(near).collect(),
                vec![(mean, slack * 4.0)],
                vec![(inverse_std, slack * inverse_std * spread)],
            ]
        })
    }
}

/// The gradients of x, γ and β.
struct Backward;

impl OnLines for Backward {
    const OPERANDS: usize = 2;
    const COLUMNS: usize = 2;
    const ALONG_ALL: bool = false;

    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        let [x, g] = [0, 1].map(|at: usize| operands[at].clone());
        let (n, wide) = (last(&x), wide(x.dtype()));
        let [gamma, _] = parameters(n, wide);
        let mut of_rows = x.shape();
        of_rows[dim] = 1;
        let values = read(&x);
        let statistics: Vec<_> = values.chunks(n).map(statistics).collect();
        let [mean, inverse_std] = [0, 1].map(|i| {
            let values: Vec<_> = statistics.iter().map(|row| row[i]).collect();
            tensor(&values, of_rows.as_slice(), wide)
        });
        layer_norm::backward::<B>(x, gamma, mean, inverse_std, g).into()
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![operands[0], wide(operands[0]), wide(operands[0])]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let (shape, dtype) = (operands[0].shape(), operands[0].dtype());
        let n = shape[dim];
        let gamma = read(&parameters(n, wide(dtype))[0]);
        let (row, column) = (
            slack(dtype, n),
            slack(dtype, shape.num_elements() / n.max(1)),
        );
        Box::new(move |line| {
            let (x, g) = (normalized(&line.of[0]), &line.of[1]);
            let [_, inverse_std] = statistics(&line.of[0]);
            let scaled: Vec<_> = g.iter().zip(&gamma).map(|(g, gamma)| g * gamma).collect();
            let mean = scaled.iter().sum::<f64>() / n as f64;
            let along = scaled.iter().zip(&x).map(|(g, x)| g * x).sum::<f64>() / n as f64;
            // |g γ| is at most 16.
            let tolerance = row * 16.0 * inverse_std * (1.0 + 4.0 * inverse_std);
            let dx = |(g, x): (&f64, &f64)| ((g - mean - x * along) * inverse_std, tolerance);
            let dgamma = |(g, x): (&f64, &f64)| {
                (
                    g * x,
                    column * ((g * x).abs() + 4.0 * g.abs() * inverse_std),
                )
            };
            vec![
                scaled.iter().zip(&x).map(dx).collect(),
                g.iter().zip(&x).map(dgamma).collect(),
                g.iter().map(|g| (*g, column * g.abs())).collect(),
            ]
        })
    }
}

#[test]
fn layer_norm_is_as_the_host_computes_whatever_the_dtype_of_its_parameters() {
    for has_beta in [true, false] {
        law::holds(&Forward {
            parameters: None,
            has_beta,
        });
        for (dtype, parameters) in pairs_of_dtypes() {
            let op = Forward {
                parameters: Some(parameters),
                has_beta,
            };
            assert_lines(&op, "dtypes", &[noisy(&[3, 40], 1, dtype)], 1);
        }
    }
}

fn pairs_of_dtypes() -> impl Iterator<Item = (DType, DType)> {
    let pairs = |one| dtypes().into_iter().map(move |other| (one, other));
    dtypes().into_iter().flat_map(pairs)
}

#[test]
fn gradients_are_as_the_host_computes() {
    law::holds(&Backward);
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
            for beta in [Some(beta), None] {
                let norm = |copy| {
                    let (x, gamma, beta) = (x.clone(), gamma.clone(), beta.clone());
                    layer_norm::forward::<Plain>(x, gamma, beta, EPSILON, copy)
                };
                let expected = Plain::float_cast(norm(None).output, copy.into());
                let copied = norm(Some(copy.into())).copy.expect("it was asked for");
                assert_eq!(copied.dtype(), copy);
                assert_eq!(read(&copied), read(&expected), "{copy:?} {n}");
            }
        }
    }
}

/// A layer norm of x, γ and perhaps β in a graph.
fn in_graph(
    layer_norm: fn(Tracked, Tracked, Option<Tracked>) -> Tracked,
) -> impl Fn(Vec<Tracked>) -> Tracked {
    move |mut operands| {
        let beta = (operands.len() == 3).then(|| operands.remove(2));
        let [x, gamma] = operands.try_into().unwrap();
        layer_norm(x, gamma, beta)
    }
}

#[test]
fn gradients_in_a_graph_are_those_of_finite_differences_and_burn() {
    for operands in [
        &[(&SHAPE[..], false), (&[5], true), (&[5], true)][..],
        &[(&SHAPE, false), (&[5], true)],
    ] {
        let host = |of: &[Vec<f64>]| {
            let beta = of.get(2).map(Vec::as_slice);
            along(&of[0], &SHAPE, 1, |x| on_host(x, &of[1], beta))
        };
        InGraph {
            operands,
            op: &in_graph(|x, gamma, beta| {
                layer_norm::forward::<PlainAutodiff>(x, gamma, beta, EPSILON, None).output
            }),
            burns: &in_graph(|x, gamma, beta| PlainAutodiff::layer_norm(x, gamma, beta, EPSILON)),
            host: &host,
            // |y| is at most 12, its gradient at most 12.5, γ at most 4, and x̂ at most 2.
            largest: 12.5 * 4.0 * 2.0,
            // The output and its gradient are rounded to the dtype; 1 / sqrt(var + ε) is less than 1.
            tolerance: &|dtype| epsilon(dtype) + slack(DType::F32, 5),
        }
        .holds();
    }
}
