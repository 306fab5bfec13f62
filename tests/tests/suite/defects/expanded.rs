//! The gradient of `float_add` on `Autodiff<burn_amp_tests::Plain>` is not that on `Autodiff<burn::backend::Flex>`.
//!
//! Depends on `burn` and `burn-backend`, 0.21.0, with the features of both backends.

use burn::backend::Autodiff;
#[allow(unused_imports, reason = "not every op has options")]
use burn_backend::{
    AutodiffBackend, Backend, DType, FloatDType, Scalar, Shape, Slice, TensorData,
    get_device_settings, ops::*, read_sync,
    tensor::{Device, FloatTensor, IndexingUpdateOp},
};

fn run<B: AutodiffBackend>(device: &Device<B>) -> Vec<f64> {
    let x0 = B::float_set_require_grad(B::float_from_data(TensorData::new(wave(16), [1, 1, 1, 16]).convert_dtype(DType::F32), device), true);
    let x1 = B::float_from_data(TensorData::new(wave(8192), [4, 8, 16, 16]).convert_dtype(DType::F32), device);
    let x2 = B::float_expand(x0.clone(), Shape::from(vec![4, 8, 16, 16]));
    let x3 = B::float_add(x1.clone(), x2.clone());
    let x4 = B::float_swap_dims(x3.clone(), 2, 3);
    let gradient = B::float_from_data(TensorData::new(wave(8192), [4, 8, 16, 16]).convert_dtype(DType::F32), device);
    let grads = B::backward(B::float_mul(x4, gradient));
    values::<B::InnerBackend>(B::grad(&x0, &grads).expect("a gradient"))
}

/// Values between -0.5 and 0.5.
fn wave(count: usize) -> Vec<f64> {
    (0..count).map(|at| (at * 37 % 101) as f64 / 101.0 - 0.5).collect()
}

fn values<B: Backend>(tensor: FloatTensor<B>) -> Vec<f64> {
    let data = read_sync(B::float_into_data(tensor)).expect("values");
    data.iter::<f64>().collect()
}

/// The elements that differ, with their values on both backends.
pub fn different() -> Vec<(usize, f64, f64)> {
    let found = run::<Autodiff<burn_amp_tests::Plain>>(&Default::default());
    let expected = run::<Autodiff<burn::backend::Flex>>(&Default::default());
    let pairs = found.into_iter().zip(expected).enumerate();
    pairs.map(|(at, (x, y))| (at, x, y)).filter(|(_, x, y)| x != y).collect()
}

pub fn main() {
    for (at, found, expected) in different().into_iter().take(10) {
        println!("element {at}: {found}, not {expected}");
    }
}
