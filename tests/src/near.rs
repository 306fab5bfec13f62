//! Compares the results of two backends within a tolerance.

use crate::prelude::*;

/// Tensors with their names.
pub type Named = Vec<(String, TensorData)>;

/// The distance from 1 to the next number in the compute dtype of the policy in force: twice the rounding error of a low op.
pub fn epsilon() -> f32 {
    match precision() {
        Precision::BF16 => 2f32.powi(-7),
        _ => 2f32.powi(-10),
    }
}

/// The compute dtype of the policy in force, which is low.
pub fn precision() -> Precision {
    let config = burn_amp::effective_config::<Amp>(&Default::default()).unwrap();
    match config.compute {
        Compute::Bf16 => Precision::BF16,
        Compute::F16 => Precision::F16,
        compute @ (Compute::Auto | Compute::F32) => panic!("{compute:?} is not low"),
    }
}

/// Asserts that all values are finite F32 numbers, off by at most `tolerance` times the tensor's largest value.
///
/// Some tensors should be 0 except for F32's rounding errors: for example the gradient of a key's bias, which has no
/// effect on softmax, or that of a bias before batch norm. For them the largest value of all tensors counts.
pub fn assert_near(found: &Named, expected: &Named, tolerance: f32) {
    let largest = |data: &TensorData| data.iter::<f32>().fold(0.0, |max: f32, x| max.max(x.abs()));
    let largest_of_all = expected
        .iter()
        .map(|(_, data)| largest(data))
        .fold(0.0, f32::max);

    let names = |tensors: &Named| -> Vec<String> { tensors.iter().map(|t| t.0.clone()).collect() };
    assert_eq!(names(found), names(expected));
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found.dtype, DType::F32, "{name}");
        assert_eq!(found.shape, expected.shape, "{name}");
        let size = match largest(expected) {
            rounding if rounding < 16.0 * f32::EPSILON * largest_of_all => largest_of_all,
            size => size,
        };
        for (found, expected) in found.iter::<f32>().zip(expected.iter::<f32>()) {
            let error = (found - expected).abs() / size;
            assert!(
                error <= tolerance,
                "{name}: found {found}, expected {expected}: the error is {error} of {size}, more than {tolerance}"
            );
        }
    }
}
