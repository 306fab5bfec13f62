//! Softmax, of an operand that is scaled and masked or not, and its gradient.

mod masked;

use burn_amp_kernels::softmax::{self, Mask, ScaleMask};
use burn_backend::ops::ActivationOps;

use super::prelude::*;

/// The softmax of a row, `exp(x - max) / sum(exp(x - max))`.
pub fn on_host(x: &[f64]) -> Vec<f64> {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    let exp: Vec<_> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|exp| exp / sum).collect()
}

/// A mask, and whether it hides each of the scores.
struct Hidden {
    elements: BoolTensor<Plain>,
    hides: Vec<bool>,
}

/// What an operand goes through before the softmax.
struct Before {
    scale: f32,
    hidden: Option<Hidden>,
    /// The value of what is hidden.
    value: f32,
}

const PLAIN: Before = Before {
    scale: 1.0,
    hidden: None,
    value: 0.0,
};

impl Before {
    fn scale_mask(&self) -> ScaleMask<BoolTensor<Plain>> {
        let mask = |hidden: &Hidden| Mask {
            elements: hidden.elements.clone(),
            value: self.value,
        };
        ScaleMask {
            scale: self.scale,
            mask: self.hidden.as_ref().map(mask),
        }
    }

    fn is_plain(&self) -> bool {
        self.scale == 1.0 && self.hidden.is_none()
    }

    fn hides(&self, place: usize) -> bool {
        self.hidden
            .as_ref()
            .is_some_and(|hidden| hidden.hides[place])
    }

    /// Scores of up to 4 in magnitude are rounded once more by the factor.
    fn slack(&self, dtype: DType, n: usize) -> f64 {
        if self.is_plain() {
            slack(dtype, n)
        } else {
            4.0 * slack(dtype, n)
        }
    }
}

struct Forward(Before);

impl OnLines for Forward {
    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        vec![softmax::forward::<B>(
            operands[0].clone(),
            dim,
            self.0.scale_mask(),
        )]
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let slack = self.0.slack(operands[0].dtype(), operands[0].shape()[dim]);
        Box::new(move |line| {
            let score = |(x, place): (&f64, &usize)| match self.0.hides(*place) {
                true => self.0.value.into(),
                false => x * f64::from(self.0.scale),
            };
            let scores: Vec<_> = line.of[0].iter().zip(line.places).map(score).collect();
            vec![
                on_host(&scores)
                    .into_iter()
                    .map(|y| (y, slack * y))
                    .collect(),
            ]
        })
    }
}

/// The gradient, from the output and its gradient: `y (g - sum(g y) / sum(y))`.
struct Backward(Before);

impl OnLines for Backward {
    const OPERANDS: usize = 2;
    // Along other dimensions the sum of noise may be zero.
    const ALONG_ALL: bool = false;

    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float> {
        let [y, g] = [0, 1].map(|at: usize| operands[at].clone());
        vec![softmax::backward::<B>(y, g, dim, self.0.scale_mask())]
    }

    fn prepared(&self, mut noise: Vec<Float>) -> Vec<Float> {
        let last = noise[0].shape().num_dims() - 1;
        noise[0] = softmax::forward::<Plain>(noise[0].clone(), last, self.0.scale_mask());
        noise
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_> {
        let slack = self.0.slack(operands[0].dtype(), operands[0].shape()[dim]);
        Box::new(move |line| {
            let (y, g) = (&line.of[0], &line.of[1]);
            let products = || y.iter().zip(g).map(|(y, g)| y * g);
            let weight: f64 = y.iter().sum();
            let mean = products().sum::<f64>() / weight;
            // The size of the numbers that cancel, where |g| is at most 4, and so is the sum of |g y| where y is a softmax.
            // Where it is none, its sum may be nearly zero.
            let size = if self.0.is_plain() {
                let condition = y.iter().map(|y| y.abs()).sum::<f64>() / weight.abs();
                4.0 + products().map(f64::abs).sum::<f64>() / weight.abs() * (1.0 + condition)
            } else {
                8.0
            };
            let scale = f64::from(self.0.scale);
            let dx = |((y, g), place): ((&f64, &f64), &usize)| {
                let dx = if self.0.hides(*place) {
                    0.0
                } else {
                    scale * y * (g - mean)
                };
                (dx, slack * size * y.abs())
            };
            let dx: Near = y.iter().zip(g).zip(line.places).map(dx).collect();
            vec![dx]
        })
    }
}

#[test]
fn softmax_is_as_the_host_computes() {
    law::holds(&Forward(PLAIN));
    law::special_rows_hold(&Forward(PLAIN));
}

#[test]
fn the_gradient_is_as_the_host_computes() {
    law::holds(&Backward(PLAIN));
    let operands = [1, 2].map(|seed| noisy(&[5, 7], seed, DType::F32));
    assert_lines(&Backward(PLAIN), "along the first", &operands, 0);
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
fn nothing_comes_of_nothing() {
    for dtype in dtypes() {
        for shape in [&[0][..], &[0, 5]] {
            let x = || tensor(&[], shape, dtype);
            for y in [
                softmax::forward::<Plain>(x(), 0, ScaleMask::none()),
                softmax::backward::<Plain>(x(), x(), 0, ScaleMask::none()),
            ] {
                assert_eq!((y.dtype(), y.shape().as_slice()), (dtype, shape));
                assert!(read(&y).is_empty());
            }
        }
    }
}

#[test]
fn gradients_in_a_graph_are_those_of_finite_differences_and_burn() {
    InGraph {
        operands: &[(&SHAPE, false)],
        op: &|mut x| softmax::forward::<PlainAutodiff>(x.remove(0), 1, ScaleMask::none()),
        burns: &|mut x| <PlainAutodiff as ActivationOps<_>>::softmax(x.remove(0), 1),
        host: &|x| along(&x[0], &SHAPE, 1, on_host),
        largest: 1.5,
        // The output and its gradient are rounded to the dtype, and the loss is computed in F32.
        tolerance: &|dtype| 2.0 * epsilon(dtype) + slack(DType::F32, 5),
    }
    .holds();
}
