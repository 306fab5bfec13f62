//! The law for kernels in a graph: their gradients are those of finite differences and of Burn's op, and only what is
//! tracked has one.

use burn_amp_tests::prelude::*;

use super::rows::{self, Float, assert_near, derivatives, noise, noisy, read, slack};

/// A tensor of a graph.
pub type Tracked = FloatTensor<PlainAutodiff>;

/// The shape of results.
pub const SHAPE: [usize; 2] = [3, 5];

/// An op in a graph.
pub struct InGraph<'a> {
    /// The shape of each operand, and whether it is as wide as kernels compute: a parameter.
    pub operands: &'a [(&'a [usize], bool)],
    /// Computes the op.
    pub op: &'a dyn Fn(Vec<Tracked>) -> Tracked,
    /// Computes the same by Burn's op.
    pub burns: &'a dyn Fn(Vec<Tracked>) -> Tracked,
    /// Computes it on the host.
    pub host: &'a dyn Fn(&[Vec<f64>]) -> Vec<f64>,
    /// A bound of the terms of a gradient.
    pub largest: f64,
    /// The allowed error of a gradient in a dtype, as a part of the largest term.
    pub tolerance: &'a dyn Fn(DType) -> f64,
}

impl InGraph<'_> {
    /// Asserts the law.
    pub fn holds(&self) {
        let all = vec![true; self.operands.len()];
        for dtype in rows::dtypes() {
            let values = self.values(dtype);
            let found = self.gradients(self.op, dtype, &all);
            for (at, found) in found.into_iter().enumerate() {
                let loss = |x: &[f64]| {
                    let mut values = values.clone();
                    values[at] = x.to_vec();
                    loss_on_host(&(self.host)(&values))
                };
                let (found, expected) = (found.unwrap(), derivatives(loss, &values[at]));
                assert_eq!(found.dtype(), self.dtype(at, dtype));
                let tolerance = self.largest * (self.tolerance)(dtype);
                assert_near("finite differences", &found, &expected, |_| tolerance);
            }
        }
        let [found, burns] = [self.op, self.burns].map(|op| self.gradients(op, DType::F32, &all));
        for (found, burns) in found.into_iter().zip(burns) {
            let tolerance = self.largest * slack(DType::F32, 5);
            assert_near("Burn's", &found.unwrap(), &read(&burns.unwrap()), |_| {
                tolerance
            });
        }
        for subset in 0..1 << all.len() {
            let tracked: Vec<_> = (0..all.len()).map(|bit| subset >> bit & 1 == 1).collect();
            let found = self.gradients(self.op, DType::F32, &tracked);
            let found: Vec<_> = found.iter().map(Option::is_some).collect();
            assert_eq!(found, tracked);
        }
    }

    fn dtype(&self, at: usize, dtype: DType) -> DType {
        if self.operands[at].1 {
            rows::wide(dtype)
        } else {
            dtype
        }
    }

    /// The operands, rounded to their dtypes.
    fn values(&self, dtype: DType) -> Vec<Vec<f64>> {
        let operands = self.operands.iter().zip(9..).enumerate();
        operands
            .map(|(at, ((shape, _), seed))| read(&noisy(shape, seed, self.dtype(at, dtype))))
            .collect()
    }

    /// The gradients of those operands that are tracked.
    fn gradients(
        &self,
        op: &dyn Fn(Vec<Tracked>) -> Tracked,
        dtype: DType,
        tracked: &[bool],
    ) -> Vec<Option<Float>> {
        let leaf = |(at, values): (usize, Vec<f64>)| {
            let data = TensorData::new(values, self.operands[at].0.to_vec());
            let data = data.convert_dtype(self.dtype(at, dtype));
            let leaf = PlainAutodiff::float_from_data(data, &here());
            PlainAutodiff::float_set_require_grad(leaf, tracked[at])
        };
        let leaves: Vec<_> = self
            .values(dtype)
            .into_iter()
            .enumerate()
            .map(leaf)
            .collect();
        // Another term is tracked, so that the loss always has a backward pass.
        let beside = PlainAutodiff::float_ones([1].into(), &here(), FloatDType::F32);
        let beside = PlainAutodiff::float_set_require_grad(beside, true);
        let loss = PlainAutodiff::float_add(loss(op(leaves.clone())), beside.clone());
        let grads = PlainAutodiff::backward(loss);
        assert!(PlainAutodiff::grad(&beside, &grads).is_some());
        leaves
            .iter()
            .map(|leaf| PlainAutodiff::grad(leaf, &grads))
            .collect()
    }
}

/// The loss `sum(w y) + sum(v y²)`, which uses the output twice.
fn loss(y: Tracked) -> Tracked {
    let [w, v] = weights().map(|weights| {
        let data = TensorData::new(weights, SHAPE).convert::<f32>();
        PlainAutodiff::float_from_data(data, &here())
    });
    let y = PlainAutodiff::float_cast(y, FloatDType::F32);
    let product = PlainAutodiff::float_mul;
    let squares = product(product(y.clone(), y.clone()), v);
    PlainAutodiff::float_add(
        PlainAutodiff::float_sum(product(y, w)),
        PlainAutodiff::float_sum(squares),
    )
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
