//! Code that must not be lowered: initialization runs in F32 by itself, linear algebra inside `full_precision`.

use burn::{
    module::Initializer,
    tensor::linalg::{self, Norm},
};
use burn_amp_tests::prelude::*;

/// A matrix without symmetries, whose entries half precision would round.
fn matrix<B: Backend>() -> Tensor<B, 2> {
    let entries: Vec<f32> = (0..64)
        .map(|i| ((37 * i + 11) % 101) as f32 / 37.0 - 1.3)
        .collect();
    Tensor::from_data(TensorData::new(entries, [8, 8]), &here())
}

type Function<B> = fn(Tensor<B, 2>) -> Vec<TensorData>;

fn linear_algebra<B: Backend>() -> [(&'static str, Function<B>); 9] {
    [
        ("det", |x| {
            vec![linalg::det::<B, 3, 2, 1>(x.unsqueeze()).into_data()]
        }),
        ("lu", |x| {
            let (permutation, lower, upper) = linalg::lu::<B, 2, 1>(x);
            vec![
                permutation.into_data(),
                lower.into_data(),
                upper.into_data(),
            ]
        }),
        ("cov", |x| vec![x.cov(1, 1).into_data()]),
        ("var", |x| vec![x.var(1).into_data()]),
        ("matvec", |x| {
            let vector = x.clone().slice([0..1, 0..8]).flatten(0, 1);
            vec![linalg::matvec::<B, 2, 1, _>(x, vector).into_data()]
        }),
        ("outer", |x| {
            let vector: Tensor<B, 1> = x.slice([0..1, 0..8]).flatten(0, 1);
            vec![linalg::outer::<B, 1, 2, _>(vector.clone(), vector).into_data()]
        }),
        ("norm", |x| {
            vec![linalg::vector_norm(x, Norm::Lp(3.0), 1).into_data()]
        }),
        ("cosine similarity", |x| {
            vec![linalg::cosine_similarity(x.clone(), x.transpose(), 1, None).into_data()]
        }),
        ("square root of a matrix", square_root),
    ]
}

/// Newton and Schulz's iteration, as in the Fréchet inception distance of burn-train.
fn square_root<B: Backend>(x: Tensor<B, 2>) -> Vec<TensorData> {
    let matrix = x.clone().matmul(x.transpose()) / 100.0;
    let identity = Tensor::<B, 2>::eye(8, &matrix.device());
    let (mut y, mut z) = (matrix, identity.clone());
    for _ in 0..5 {
        let t = (identity.clone() * 3.0 - z.clone().matmul(y.clone())) * 0.5;
        y = y.matmul(t.clone());
        z = t.matmul(z);
    }
    vec![y.into_data(), z.into_data()]
}

fn is_f32_in_the_scope() {
    let plain = linear_algebra::<Plain>();
    let without_graph = linear_algebra::<Amp>();
    for ((name, on_plain), (_, on_amp)) in plain.into_iter().zip(without_graph) {
        let expected = on_plain(matrix());
        assert_eq!(full_precision(|| on_amp(matrix())), expected, "{name}");
    }
    // With a graph Burn multiplies the factors of a determinant by adding their logarithms.
    let plain = linear_algebra::<PlainAutodiff>();
    let with_graph = linear_algebra::<AmpAutodiff>();
    for ((name, on_plain), (_, on_amp)) in plain.into_iter().zip(with_graph) {
        let expected = on_plain(matrix());
        assert_eq!(full_precision(|| on_amp(matrix())), expected, "{name}");
    }
}

// Fusion rounds fewer intermediate results when it has seen the same ops before.
#[test]
fn linear_algebra_in_full_precision_is_that_of_the_plain_backend() {
    for_each_low_policy!(is_f32_in_the_scope);
}

fn operands_in_low_precision() {
    let low = matrix::<Amp>().matmul(Tensor::eye(8, &here()));
    let stored: Vec<f32> = low.to_data().iter().collect();
    assert!(storage_dtype(&low) != burn::tensor::DType::F32);
    let plain = Tensor::<Plain, 2>::from_data(TensorData::new(stored, [8, 8]), &here());
    let found = full_precision(|| low.cov(1, 1)).into_data();
    assert_eq!(found, plain.cov(1, 1).into_data());
}

#[test]
fn the_scope_widens_operands_that_are_stored_low() {
    for_each_low_policy!(operands_in_low_precision);
}

fn initializers() -> [Initializer; 8] {
    [
        Initializer::Normal {
            mean: 0.0,
            std: 1.0,
        },
        Initializer::Uniform {
            min: -1.0,
            max: 1.0,
        },
        Initializer::KaimingUniform {
            gain: 1.0,
            fan_out_only: false,
        },
        Initializer::KaimingNormal {
            gain: 1.0,
            fan_out_only: false,
        },
        Initializer::XavierUniform { gain: 1.0 },
        Initializer::XavierNormal { gain: 1.0 },
        Initializer::Constant { value: 0.1 },
        Initializer::Orthogonal { gain: 0.9 },
    ]
}

fn initial_value<B: Backend>(initializer: &Initializer, shape: [usize; 2]) -> TensorData {
    B::seed(&here(), 7);
    let param = initializer.init_with::<B, 2, _>(shape, Some(shape[0]), Some(shape[1]), &here());
    param.val().into_data()
}

fn initializes_in_f32() {
    for initializer in initializers() {
        for shape in [[12, 12], [6, 20], [20, 6]] {
            let expected = initial_value::<Plain>(&initializer, shape);
            let found = initial_value::<AmpAutodiff>(&initializer, shape);
            assert_eq!(found, expected, "{initializer:?}");
            let found = initial_value::<Amp>(&initializer, shape);
            assert_eq!(found, expected, "{initializer:?}");
        }
    }
}

#[test]
fn every_initializer_gives_the_values_of_the_plain_backend() {
    for_each_low_policy!(initializes_in_f32);
}
