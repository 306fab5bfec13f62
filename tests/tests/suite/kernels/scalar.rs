//! Ops of a tensor and a scalar, compared bit for bit with the host.

use burn::tensor::{DType, Tensor, TensorPrimitive, ops::FloatTensorOps};
use burn_amp::config::Precision;
use burn_amp_kernels::scalar::{self, ScalarOp};
use burn_amp_tests::{Plain, References};
use burn_backend::{TensorMetadata, read_sync, tensor::FloatTensor};

use super::{dtypes, float};

const OPS: [ScalarOp; 5] = [
    ScalarOp::Add,
    ScalarOp::Sub,
    ScalarOp::Mul,
    ScalarOp::Div,
    ScalarOp::LeakyRelu,
];

fn read(tensor: FloatTensor<Plain>) -> Vec<f64> {
    let data = read_sync(Plain::float_into_data(tensor)).expect("the backend computes");
    data.iter().collect()
}

fn on_number(op: ScalarOp, x: f32, scalar: f32) -> f32 {
    match op {
        ScalarOp::Add => x + scalar,
        ScalarOp::Sub => x - scalar,
        ScalarOp::Mul => x * scalar,
        ScalarOp::Div => x / scalar,
        ScalarOp::LeakyRelu if x < 0.0 => x * scalar,
        ScalarOp::LeakyRelu => x,
    }
}

fn precision(dtype: DType) -> Precision {
    match dtype {
        DType::F16 => Precision::F16,
        DType::BF16 => Precision::BF16,
        _ => Precision::F32,
    }
}

/// The error that is allowed, in epsilons of the dtype: a GPU's division is off by up to 2.5 units in the last place of
/// F32, which moves a result in low precision to its neighbour at most.
fn slack(op: ScalarOp, dtype: DType) -> f64 {
    let is_exact = op != ScalarOp::Div || cfg!(not(feature = "cubecl"));
    match precision(dtype) {
        _ if is_exact => 0.0,
        Precision::F32 => 4.0 * Precision::F32.epsilon(),
        low => low.epsilon(),
    }
}

#[test]
fn every_element_is_computed_in_f32_and_rounded_once() {
    for dtype in dtypes().into_iter().filter(|dtype| *dtype != DType::F64) {
        for shape in [[1, 1], [2, 3], [33, 31], [64, 256]] {
            let count = shape[0] * shape[1];
            let values: Vec<_> = (0..count).map(|at| (at as f64 - 40.0) * 0.37).collect();
            let x = float(&values, shape, dtype);
            let stored = read(x.clone());
            for op in OPS {
                let scalar = 0.99;
                for result in [
                    scalar::forward::<Plain>(x.clone(), op, scalar),
                    scalar::forward::<References>(x.clone(), op, scalar),
                ] {
                    assert_eq!((result.dtype(), result.shape()), (dtype, x.shape()));
                    for (x, found) in stored.iter().zip(read(result)) {
                        let in_f32 = f64::from(on_number(op, *x as f32, scalar as f32));
                        let expected = precision(dtype).round(in_f32);
                        assert!(
                            (found - expected).abs() <= slack(op, dtype) * expected.abs(),
                            "{op:?} of {x} in {dtype:?}: {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn elements_keep_their_places_whatever_the_layout() {
    for dtype in dtypes() {
        let values: Vec<_> = (0..24).map(f64::from).collect();
        let tensor = || {
            let float = float(&values, [4, 6], dtype);
            Tensor::<Plain, 2>::from_primitive(TensorPrimitive::Float(float))
        };
        for case in [
            tensor(),
            tensor().transpose(),
            tensor().slice([1..3, 2..5]).transpose(),
            tensor().slice([2..3, 0..6]).expand([3, 6]),
            Tensor::empty([0, 6], (&Default::default(), dtype)),
        ] {
            let expected: Vec<f64> = case.to_data().iter().map(|x: f64| 2.0 * x).collect();
            let x = case.into_primitive().tensor();
            assert_eq!(
                read(scalar::forward::<Plain>(x, ScalarOp::Mul, 2.0)),
                expected,
                "{dtype:?}"
            );
        }
    }
}
