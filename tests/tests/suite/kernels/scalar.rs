//! Ops of a tensor and a scalar, bit for bit.

use burn_amp_kernels::scalar::{self, ScalarOp};

use super::prelude::*;

const OPS: [ScalarOp; 5] = [
    ScalarOp::Add,
    ScalarOp::Sub,
    ScalarOp::Mul,
    ScalarOp::Div,
    ScalarOp::LeakyRelu,
];

fn on_number(op: ScalarOp, x: f64, scalar: f64) -> f64 {
    match op {
        ScalarOp::Add => x + scalar,
        ScalarOp::Sub => x - scalar,
        ScalarOp::Mul => x * scalar,
        ScalarOp::Div => x / scalar,
        ScalarOp::LeakyRelu if x < 0.0 => x * scalar,
        ScalarOp::LeakyRelu => x,
    }
}

/// The op in F32, rounded once more: an F64 result of F32 operands, rounded to F32, is that of the op in F32.
fn rounded(op: ScalarOp, x: f64, scalar: f64, dtype: DType) -> f64 {
    let low = match dtype {
        DType::F64 => return on_number(op, x, scalar),
        DType::F16 => Precision::F16,
        DType::BF16 => Precision::BF16,
        _ => Precision::F32,
    };
    low.round(f64::from(on_number(op, x, f64::from(scalar as f32)) as f32))
}

struct OnScalar(ScalarOp, f64);

impl OnLines for OnScalar {
    const SHAPES: &[&[usize]] = &[&[1, 1], &[2, 3], &[33, 31], &[64, 256]];

    fn all() -> Vec<DType> {
        super::dtypes()
    }

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        vec![scalar::forward::<B>(operands[0].clone(), self.0, self.1)]
    }

    /// A GPU's division is off by up to 2.5 units in the last place of F32, which moves a result in low precision to its
    /// neighbour at most.
    fn host(&self, operands: &[Float], _dim: usize) -> Host<'_> {
        let dtype = operands[0].dtype();
        let is_exact = self.0 != ScalarOp::Div || cfg!(not(feature = "cubecl"));
        Box::new(move |line| {
            let near = |x: &f64| {
                let y = rounded(self.0, *x, self.1, dtype);
                let tolerance = match dtype {
                    _ if is_exact => EXACT,
                    DType::F32 => 3.0 * Precision::F32.epsilon() * y.abs(),
                    _ => 0.0,
                };
                (y, tolerance)
            };
            vec![line.of[0].iter().map(near).collect()]
        })
    }
}

#[test]
fn every_element_is_computed_in_f32_and_rounded_once() {
    for op in OPS {
        law::holds(&OnScalar(op, 0.99));
        for dtype in OnScalar::all() {
            law::sizes_hold::<References, _>(&OnScalar(op, 0.99), dtype);
        }
    }
}
