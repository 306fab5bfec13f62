//! The result of `float_mean` on `burn_amp_tests::Plain` is not that on `burn::backend::Flex`.
//!
//! Depends on `burn` and `burn-backend`, 0.21.0, with the features of both backends.

#[allow(unused_imports, reason = "not every op has options")]
use burn_backend::{
    AutodiffBackend, Backend, DType, FloatDType, Scalar, Shape, Slice, TensorData,
    get_device_settings, ops::*, read_sync,
    tensor::{Device, FloatTensor, IndexingUpdateOp},
};

fn run<B: Backend>(device: &Device<B>) -> Vec<f64> {
    let x0 = B::float_from_data(TensorData::new(wave(96), [2, 3, 4, 4]).convert_dtype(DType::F32), device);
    let x1 = B::float_permute(x0.clone(), &vec![0, 3, 2, 1]);
    let x2 = B::float_mean(x1.clone());
    values::<B>(x2)
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
    let found = run::<burn_amp_tests::Plain>(&Default::default());
    let expected = run::<burn::backend::Flex>(&Default::default());
    let pairs = found.into_iter().zip(expected).enumerate();
    pairs.map(|(at, (x, y))| (at, x, y)).filter(|(_, x, y)| x != y).collect()
}

pub fn main() {
    for (at, found, expected) in different().into_iter().take(10) {
        println!("element {at}: {found}, not {expected}");
    }
}
