//! Law: tensors that are filled with one number do not widen the tensors in low precision that are put into them.

use burn::tensor::ops::PadMode;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// A matrix in low precision, of numbers that every dtype holds exactly.
fn quarters<B: Backend>() -> Tensor<B, 2> {
    let numbers: Vec<f32> = (0..12).map(|i| i as f32 / 4.0 - 1.0).collect();
    activation(Tensor::from_data(TensorData::new(numbers, [3, 4]), &here()))
}

type Function<B> = fn(Tensor<B, 2>) -> Tensor<B, 2>;

fn into_filled<B: Backend>() -> [(&'static str, Function<B>); 8] {
    [
        ("zeros", |x| {
            Tensor::zeros([6, 4], &x.device()).slice_assign([1..4, 0..4], x)
        }),
        ("ones", |x| {
            Tensor::ones([6, 4], &x.device()).slice_assign([1..4, 0..4], x)
        }),
        ("full", |x| {
            Tensor::full([6, 4], -0.5, &x.device()).slice_assign([1..4, 0..4], x)
        }),
        ("empty", |x| {
            Tensor::empty([3, 4], &x.device()).slice_assign([0..3, 0..4], x)
        }),
        ("cat", |x| {
            Tensor::cat(vec![x.zeros_like(), x.clone(), x.ones_like()], 0)
        }),
        ("mask_where", |x| {
            let mask = x.clone().lower_elem(0.0);
            x.clone().mask_where(mask, x.full_like(2.0))
        }),
        ("pad", |x| x.pad((1, 1, 1, 1), 0.0)),
        ("pad with a number", |x| {
            x.pad((1, 0, 0, 2), PadMode::Constant(1.5))
        }),
    ]
}

fn stays_low() {
    for ((name, op), (_, plain)) in into_filled::<B>().into_iter().zip(into_filled()) {
        let low = storage_dtype(&quarters::<B>());
        assert!(low != DType::F32);
        let result = op(quarters());
        assert_eq!(storage_dtype(&result), low, "{name}");
        let expected = plain(quarters::<Plain>()).into_data();
        assert_eq!(result.into_data(), expected, "{name}");
    }
}

#[test]
fn what_is_put_into_a_filled_tensor_stays_low() {
    for_each_low_policy!(stays_low);
}

fn widens() {
    let x = quarters::<B>;
    let stored = |x: Tensor<B, 2>| storage_dtype(&x);
    // A number that low precision would round, and values that were computed.
    let tenths = Tensor::full([6, 4], 0.1, &here());
    assert_eq!(stored(tenths.slice_assign([1..4, 0..4], x())), DType::F32);
    let computed = Tensor::zeros([6, 4], &here()) + 1.0;
    assert_eq!(stored(computed.slice_assign([1..4, 0..4], x())), DType::F32);
    // A sum that starts with zeros is an F32 sum, and F32 values that are put into zeros keep their digits.
    assert_eq!(stored(Tensor::zeros([3, 4], &here()) + x()), DType::F32);
    let zeros = Tensor::<B, 2>::zeros([6, 4], &here()).slice_assign([1..4, 0..4], x());
    let third = Tensor::<B, 2>::ones([1, 4], &here()) / 3.0;
    let mixed = zeros.slice_assign([0..1, 0..4], third);
    assert_eq!(stored(mixed.clone()), DType::F32);
    assert_eq!(mixed.into_data().iter::<f32>().next(), Some(1.0 / 3.0));
    // A parameter that starts with zeros is a parameter.
    let weight = Tensor::<B, 2>::zeros([3, 4], &here()).require_grad();
    let cat = Tensor::cat(vec![x(), weight], 0);
    assert_eq!(stored(cat.slice([0..6, 0..4])), DType::F32);
}

#[test]
fn values_that_would_lose_digits_still_widen() {
    for_each_low_policy!(widens);
}

/// The gradient of an activation whose columns are read after it was put into a filled tensor.
fn gradient<B: AutodiffBackend>(op: Function<B>) -> TensorData {
    let leaf = Tensor::<B, 2>::ones([3, 4], &here()).require_grad();
    let result = op(activation(leaf.clone()));
    let indices = Tensor::<B, 1, Int>::from_ints([0, 2], &here());
    let grads = result.select(1, indices).sum().backward();
    leaf.grad(&grads).expect("finite").into_data()
}

fn gradients_are_those_of_f32() {
    for ((name, op), (_, plain)) in into_filled().into_iter().zip(into_filled()) {
        let expected = gradient::<PlainAutodiff>(plain);
        assert_eq!(gradient::<B>(op), expected, "{name}");
    }
}

#[test]
fn gradients_pass_through_a_filled_tensor() {
    under_each!(gradients_are_those_of_f32, InBf16, UnscaledF16);
}
