//! What a tensor is after `require_grad`, `detach` and `sign`: which dtype it is stored in, and whether ops on it follow the
//! policy.

use burn_amp_tests::prelude::*;

/// The result of an op that runs in low precision.
fn product<B: Backend>() -> Tensor<B, 2> {
    Tensor::<B, 2>::from_floats([[0.75, 0.25], [0.125, 0.875]], &here())
        .matmul(Tensor::eye(2, &here()))
}

fn starts_in_f32() {
    assert!(storage_dtype(&product::<AmpAutodiff>()) != DType::F32);
    let param = Param::from_tensor(product::<AmpAutodiff>());
    assert_eq!(storage_dtype(&param.val()), DType::F32);
    assert_eq!(
        storage_dtype(&product::<AmpAutodiff>().require_grad()),
        DType::F32
    );
    let of_inference = Param::from_tensor(product::<Amp>());
    assert_eq!(storage_dtype(&of_inference.val()), DType::F32);
    // What the user stores in half precision stays so.
    let half = Param::from_tensor(product::<AmpAutodiff>().cast(DType::F16));
    assert_eq!(storage_dtype(&half.val()), DType::F16);
}

#[test]
fn a_parameter_made_of_a_low_result_is_stored_in_f32() {
    for_each_low_policy!(starts_in_f32);
}

/// A gradient, as the step of an optimizer gets it.
fn gradient() -> Tensor<Amp, 2> {
    let x = product::<AmpAutodiff>().detach().require_grad();
    let grads = (x.clone() * x.clone()).sum().backward();
    x.grad(&grads).expect("finite")
}

fn follows_the_policy_again() {
    let is_low = |x: Tensor<Amp, 2>| {
        let identity = Tensor::eye(2, &x.device());
        storage_dtype(&x.matmul(identity)) != DType::F32
    };
    assert!(!is_low(gradient()));
    assert!(!is_low(gradient() * 0.5 + 1.0));
    // Along the signs of a gradient (FGSM), and along a gradient that was detached.
    let x = || product::<Amp>();
    assert!(is_low(x() + gradient().sign() * 0.1));
    assert!(is_low(x() + gradient().detach() * 0.1));
    assert!(is_low(gradient().greater_elem(0.0).float()));
    assert_eq!(
        gradient().sign().into_data().iter::<f32>().sum::<f32>(),
        4.0
    );
}

#[test]
fn signs_and_detached_gradients_follow_the_policy_again() {
    for_each_low_policy!(follows_the_policy_again);
}
