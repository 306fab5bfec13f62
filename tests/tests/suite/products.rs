//! Products of two tensors in F16 that are read in F32 (dot products, similarities, norms), and of a tensor with one
//! number on the device.

use burn::{
    nn::loss::CosineEmbeddingLossConfig,
    tensor::linalg::{Norm, cosine_similarity, vector_norm},
};
use burn_amp_tests::prelude::*;

/// Numbers of several hundreds, whose products overflow F16, and which F16 holds exactly.
fn large<B: Backend>(seed: usize, shape: [usize; 2]) -> Tensor<B, 2> {
    let numbers: Vec<f32> = (0..shape[0] * shape[1])
        .map(|i| 300.0 + ((37 * i + 11 * seed) % 101) as f32)
        .collect();
    Tensor::from_data(TensorData::new(numbers, shape), &here())
}

type Function<B> = fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 1>;

fn functions<B: Backend>() -> [(&'static str, Function<B>); 10] {
    [
        ("dot product", |x, y| (x * y).sum()),
        ("dot products of rows", |x, y| (x * y).sum_dim(1).mean()),
        ("broadcast", |x, y| {
            (x * y.slice([0..1, 0..8])).sum_dim(1).mean()
        }),
        ("mean", |x, y| (x * y).mean()),
        ("square", |x, _| (x.clone() * x).mean_dim(1).sqrt().sum()),
        ("cosine similarity", |x, y| {
            cosine_similarity(x, y, 1, None).sum()
        }),
        ("cosine embedding loss", |x, y| {
            let target = Tensor::<B, 1, Int>::from_ints([1, -1, 1, 1], &x.device());
            CosineEmbeddingLossConfig::new()
                .init()
                .forward(x, y, target)
        }),
        ("norm", |x, _| vector_norm(x, Norm::Lp(3.0), 1).sum()),
        ("variance", |x, _| x.var(1).sum()),
        ("with F32", |x, y| {
            let wide = (x.clone() / 1000.0).exp();
            (x * y - wide).mean()
        }),
    ]
}

/// The value of a function, and the gradients of its operands.
fn outcome<B: AutodiffBackend>(function: Function<B>) -> (f32, [Vec<f32>; 2]) {
    let leaves = [0, 1].map(|seed| large::<B>(seed, [4, 8]).require_grad());
    let [x, y] = leaves.clone().map(activation);
    let value = function(x, y);
    let grads = value.clone().backward();
    let gradient = |leaf: Tensor<B, 2>| match leaf.grad(&grads) {
        Some(gradient) => gradient.into_data().iter::<f32>().collect(),
        None => Vec::new(),
    };
    (value.into_data().iter::<f32>().sum(), leaves.map(gradient))
}

#[test]
fn sums_of_products_are_those_of_f32() {
    let _policy = enter::<UnscaledF16>();
    let epsilon = 2f32.powi(-10);
    for ((name, on_amp), (_, on_plain)) in functions().into_iter().zip(functions()) {
        let (value, gradients) = outcome::<AmpAutodiff>(on_amp);
        let (expected, expected_gradients) = outcome::<PlainAutodiff>(on_plain);
        let error = (value - expected).abs();
        assert!(
            error <= 1e-5 * expected.abs(),
            "{name}: {value}, in f32 {expected}"
        );
        for (gradient, expected) in gradients.iter().zip(&expected_gradients) {
            let largest = expected.iter().fold(0f32, |max, x| max.max(x.abs()));
            // A gradient of 10^-5 is subnormal in F16, where numbers are 6e-8 apart.
            let tolerance = 2.0 * epsilon * largest + 6e-8;
            assert_eq!(gradient.len(), expected.len(), "{name}");
            for (gradient, expected) in gradient.iter().zip(expected) {
                let error = (gradient - expected).abs();
                assert!(
                    error <= tolerance,
                    "{name}: gradient {gradient}, in f32 {expected}"
                );
            }
        }
    }
}

fn is_stored_low() {
    let [x, y] = [0, 1].map(|seed| activation(large::<AmpAutodiff>(seed, [4, 8])));
    let low = storage_dtype(&x);
    assert!(low != DType::F32);
    let product = x * y;
    assert_eq!(storage_dtype(&product), low);
    assert_eq!(storage_dtype(&product.clone().transpose()), low);
    assert_eq!(storage_dtype(&(product.clone() * 0.5)), low);
    assert_eq!(storage_dtype(&product.matmul(Tensor::eye(8, &here()))), low);
}

#[test]
fn a_product_of_low_tensors_stays_low() {
    under_each!(is_stored_low, InBf16, InF16);
}

#[test]
fn the_host_reads_the_product_in_f32() {
    let _policy = enter::<InF16>();
    let product = |seed: [usize; 2]| {
        let [x, y] = seed.map(|seed| activation(large::<AmpAutodiff>(seed, [4, 8])));
        x * y
    };
    let expected = large::<Plain>(0, [4, 8]) * large::<Plain>(1, [4, 8]);
    assert_eq!(product([0, 1]).into_data(), expected.clone().into_data());
    let in_f32 = burn_amp::to_f32(product([0, 1]));
    assert_eq!(in_f32.into_data(), expected.into_data());
}

#[test]
fn a_product_with_a_mask_is_as_before() {
    let _policy = enter::<InF16>();
    let x = activation(large::<AmpAutodiff>(0, [4, 8]));
    let mask = Tensor::random([4, 8], Distribution::Bernoulli(1.0), &here());
    let product = x.clone() * mask;
    assert_eq!(storage_dtype(&product), DType::F16);
    assert_eq!(product.into_data(), x.into_data());
}

/// A result of a function, its gradients with respect to a tensor and to a single number, and whether it is stored low.
fn with_one_element<B: AutodiffBackend>(
    op: fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>,
    is_low: impl Fn(&Tensor<B, 2>) -> bool,
) -> (Vec<f32>, Vec<f32>, f32, bool) {
    let leaf = (large::<B>(0, [4, 8]) / 256.0).require_grad();
    let one = Tensor::<B, 2>::full([1, 1], 0.3, &leaf.device()).require_grad();
    let result = op(activation(leaf.clone()), one.clone());
    let low = is_low(&result);
    let values = result.clone().into_data().iter().collect();
    let grads = result.sum().backward();
    let gradient = leaf.grad(&grads).expect("finite").into_data();
    let of_one = one.grad(&grads).expect("finite").into_data();
    let of_one = of_one.iter().next().expect("one element");
    (values, gradient.iter().collect(), of_one, low)
}

fn does_not_widen() {
    type Op<B> = fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>;
    fn ops<B: Backend>() -> [(&'static str, Op<B>); 4] {
        [
            ("times", |x, one| x * one),
            ("one times", |x, one| one * x),
            ("plus", |x, one| x + one),
            ("minus", |x, one| one - x),
        ]
    }
    for ((name, op), (_, plain)) in ops().into_iter().zip(ops()) {
        let (found, gradient, of_one, low) =
            with_one_element::<AmpAutodiff>(op, |x| storage_dtype(x) != DType::F32);
        let (expected, expected_gradient, expected_of_one, _) =
            with_one_element::<PlainAutodiff>(plain, |_| false);
        assert!(low, "{name}");
        // The operand and the result are rounded once each, and so is the gradient.
        let near = |a: f32, b: f32| (a - b).abs() <= epsilon() * b.abs();
        for (found, expected) in found.iter().zip(&expected) {
            assert!(near(*found, *expected), "{name}: {found}, {expected}");
        }
        for (found, expected) in gradient.iter().zip(&expected_gradient) {
            assert!(
                near(*found, *expected),
                "gradient of {name}: {found}, {expected}"
            );
        }
        assert!(
            near(of_one, expected_of_one),
            "{name}: {of_one}, {expected_of_one}"
        );
    }
    // Two tensors of one element, such as losses, and any other F32 tensor widen as before.
    let x = || activation(large::<AmpAutodiff>(0, [4, 8]));
    let single = |x: Tensor<AmpAutodiff, 2>| x.slice([0..1, 0..1]);
    let one = Tensor::full([1, 1], 0.3, &here());
    assert_eq!(storage_dtype(&(single(x()) * one)), DType::F32);
    assert_eq!(storage_dtype(&(x() * large(1, [1, 8]))), DType::F32);
}

#[test]
fn a_single_f32_number_on_the_device_does_not_widen() {
    under_each!(does_not_widen, InBf16, UnscaledF16);
}
