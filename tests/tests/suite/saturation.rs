//! Law: a reader of a saturating result gets its F32 value, and losses on probabilities train as in F32.

use burn::tensor::activation::tanh;
use burn_amp::to_f32;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// Logits that every dtype holds exactly, so that F32 and the low precisions start from the same numbers. With them, a
/// sigmoid and a hyperbolic tangent are 1 in BF16, and a softmax has small elements; in F32 none of them is 0 or 1.
const LOGITS: [[f32; 4]; 2] = [[7.0, -2.5, 0.75, 6.5], [-7.5, 4.0, 0.25, 1.5]];

fn logits<B: Backend>(device: &B::Device) -> Tensor<B, 2> {
    Tensor::from_data(TensorData::from(LOGITS), device)
}

/// A number made of the result of a saturating op.
type Reader<B> = fn(Tensor<B, 2>) -> Tensor<B, 1>;

/// Ways to read a result that need it in F32, directly and by way of ops that only move values.
fn readers<B: Backend>() -> Vec<(&'static str, Reader<B>)> {
    fn first<B: Backend>(device: &B::Device) -> Tensor<B, 2, Int> {
        Tensor::from_ints([[1], [0]], device)
    }
    vec![
        ("log", |p| p.abs().log().sum()),
        ("log of the complement", |p| (p.neg() + 1.0).log().sum()),
        ("log1p of the negative", |p| p.neg().log1p().sum()),
        ("entropy", |p| (p.clone().abs().log() * p).sum()),
        ("gather", |p| {
            let indices = first::<B>(&p.device());
            p.gather(1, indices).abs().log().sum()
        }),
        ("select", |p| {
            let indices = Tensor::from_ints([1, 2], &p.device());
            p.select(1, indices).abs().log().sum()
        }),
        ("slice", |p| p.slice([0..2, 1..3]).abs().log().sum()),
        ("reshape", |p| p.reshape([8]).abs().log().sum()),
        ("transpose", |p| p.transpose().abs().log().sum()),
        ("flatten", |p| p.flatten::<1>(0, 1).abs().log().sum()),
        ("cat", |p| {
            Tensor::cat(vec![p.clone(), p], 0).abs().log().sum()
        }),
        ("clamp", |p| p.clamp_min(1e-6).log().sum()),
        ("sum", |p| p.sum()),
        ("mean", |p| p.mean()),
        ("difference", |p| (p.clone() - p.powf_scalar(2.0)).sum()),
        ("maximum", |p| p.max_dim(1).neg().log1p().sum()),
        ("comparison", |p| p.lower_elem(0.9999).int().float().sum()),
        ("to_f32", |p| to_plain_f32(p)),
    ]
}

fn to_plain_f32<B: Backend>(p: Tensor<B, 2>) -> Tensor<B, 1> {
    p.cast(DType::F32).neg().log1p().sum()
}

fn numbers<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The number that a reader makes of `op(logits)`, and the gradient of the logits.
fn outcome<B: AutodiffBackend>(
    op: fn(Tensor<B, 2>) -> Tensor<B, 2>,
    read: Reader<B>,
) -> (Vec<f64>, Option<Vec<f64>>) {
    let leaf = logits::<B>(&here()).require_grad();
    let number = read(op(activation(leaf.clone())));
    let value = numbers(number.clone());
    let mut grads = number.backward();
    (value, leaf.grad_remove(&mut grads).map(numbers))
}

/// Equal up to the rounding of F32 sums, or to `relative` where a gradient is rounded to low precision on its way.
fn near(found: &[f64], expected: &[f64], relative: f64, what: &str) {
    /// Rounding of F32 where a sum cancels: the gradient of a logarithm of 1e-6 is a difference of numbers of 10^6.
    const ROUNDING: f64 = 1e-4;

    let largest = expected.iter().fold(0f64, |max, x| max.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let same = found == expected || (found.is_nan() && expected.is_nan());
        assert!(
            same || (found - expected).abs() <= relative * expected.abs().max(largest) + ROUNDING,
            "{what}: {found}, in f32 {expected}"
        );
    }
}

fn reads_as_f32() {
    type Op<B> = fn(Tensor<B, 2>) -> Tensor<B, 2>;
    fn ops<B: Backend>() -> [(&'static str, Op<B>); 4] {
        [
            ("softmax", |x| softmax(x, 1)),
            ("softmax over the first dimension", |x| softmax(x, 0)),
            ("sigmoid", sigmoid),
            ("tanh", tanh),
        ]
    }
    // A gradient is rounded once per cast: to the operand's dtype, and by the product with the identity.
    let epsilon = 2f64.powi(-7);
    for ((name, op), (_, plain_op)) in ops().into_iter().zip(ops()) {
        for ((how, read), (_, plain_read)) in readers().into_iter().zip(readers()) {
            let what = format!("{how} of {name}");
            let (value, gradient) = outcome::<B>(op, read);
            let (expected, expected_gradient) = outcome::<PlainAutodiff>(plain_op, plain_read);
            near(&value, &expected, 1e-5, &what);
            let finite = expected_gradient.iter().flatten().all(|g| g.is_finite());
            if let (true, Some(gradient), Some(expected)) = (finite, gradient, expected_gradient) {
                near(
                    &gradient,
                    &expected,
                    2.0 * epsilon,
                    &format!("gradient of {what}"),
                );
            }
        }
    }
}

#[test]
fn whoever_needs_f32_gets_it() {
    for_each_low_policy!(reads_as_f32);
}

fn reads_of_a_program() {
    let plain = sigmoid(activation(logits::<Plain>(&here())));
    let expected = numbers(plain.clone());
    let result = || sigmoid(activation(logits::<B>(&here())));
    let stored = result();
    assert!(storage_dtype(&stored) != DType::F32);
    near(&numbers(stored), &expected, 1e-6, "data");
    near(&numbers(result().detach()), &expected, 1e-6, "detached");
    near(&numbers(result().inner()), &expected, 1e-6, "inner");
    let in_f32 = to_f32(result());
    assert_eq!(storage_dtype(&in_f32), DType::F32);
    near(&numbers(in_f32), &expected, 1e-6, "to_f32");
    let entering =
        Tensor::<B, 2>::from_inner(sigmoid(activation(logits::<burn_amp_tests::Amp>(&here()))));
    near(&numbers(entering), &expected, 1e-6, "from_inner");
    let again = numbers(softmax(result(), 1));
    near(&again, &numbers(softmax(plain, 1)), 1e-2, "softmax of it");
}

#[test]
fn reads_moves_and_cuts_keep_the_f32_values() {
    for_each_low_policy!(reads_of_a_program);
}

fn low_readers_read_low() {
    let p = softmax(activation(logits::<B>(&here())), 1);
    let low = storage_dtype(&p);
    assert!(low != DType::F32);
    let stored = numbers(p.clone() * 1.0);
    near(&stored, &numbers(p.clone()), 2f64.powi(-7), "as stored");
    let values = Tensor::ones([4, 3], &here());
    assert_eq!(storage_dtype(&p.clone().matmul(values)), low);
    assert_eq!(storage_dtype(&(p.clone() * 2.0)), low);
    assert_eq!(storage_dtype(&(p.clone() * p.clone())), low);
    assert_eq!(storage_dtype(&(p.clone() + 1.0)), DType::F32);
}

#[test]
fn products_read_what_is_stored() {
    for_each_low_policy!(low_readers_read_low);
}

/// The losses of a loop over `loss(logits, targets)`, a linear model of eight inputs.
fn train<B: AutodiffBackend>(loss: fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 1>) -> Vec<f64> {
    let corner = |row: usize, bit: usize| if row >> bit & 1 == 1 { 1.0f32 } else { -1.0 };
    let inputs: Vec<f32> = (0..64).map(|i| corner(i / 8, i % 8)).collect();
    let targets: Vec<f32> = (0..8)
        .map(|row| if row % 3 == 0 { 1.0 } else { 0.0 })
        .collect();
    let x = Tensor::<B, 2>::from_data(TensorData::new(inputs, [8, 8]), &here());
    let y = Tensor::<B, 2>::from_data(TensorData::new(targets, [8, 1]), &here());
    let mut weight = Tensor::<B, 2>::full([8, 1], 0.5, &here()).require_grad();
    let mut losses = Vec::new();
    for _ in 0..150 {
        let loss = loss(x.clone().matmul(weight.clone()), y.clone());
        losses.extend(numbers(loss.clone()));
        let grads = loss.backward();
        if let Some(gradient) = weight.grad(&grads) {
            let stepped = weight.inner() - gradient * 0.5;
            weight = Tensor::from_inner(stepped).require_grad();
        }
    }
    losses
}

fn binary_cross_entropy<B: Backend>(logits: Tensor<B, 2>, targets: Tensor<B, 2>) -> Tensor<B, 1> {
    let p = sigmoid(logits);
    let positive = targets.clone() * p.clone().log();
    let negative = (targets.neg() + 1.0) * p.neg().log1p();
    (positive + negative).mean().neg()
}

/// A policy gradient on probabilities, with an entropy bonus.
fn policy_gradient<B: Backend>(logits: Tensor<B, 2>, targets: Tensor<B, 2>) -> Tensor<B, 1> {
    let p = softmax(Tensor::cat(vec![logits.clone(), logits.neg()], 1), 1);
    let action = targets.int();
    let chosen = p.clone().gather(1, action).log();
    let entropy = (p.clone() * p.log()).sum_dim(1);
    (chosen.neg() + entropy * 0.01).mean()
}

fn trains_as_f32() {
    let loops: [(&str, Vec<f64>, Vec<f64>); 2] = [
        (
            "binary cross entropy",
            train::<B>(binary_cross_entropy),
            train::<PlainAutodiff>(binary_cross_entropy),
        ),
        (
            "policy gradient",
            train::<B>(policy_gradient),
            train::<PlainAutodiff>(policy_gradient),
        ),
    ];
    for (name, losses, expected) in loops {
        let (last, expected) = (losses.last().unwrap(), expected.last().unwrap());
        println!("{name}: {last:.5}, in f32 {expected:.5}");
        assert!(
            (last - expected).abs() < 0.02 * expected.abs() + 1e-3,
            "{name}: {last}, in f32 {expected}"
        );
    }
}

#[test]
fn losses_on_probabilities_train_as_in_f32() {
    for_each_low_policy!(trains_as_f32);
}
