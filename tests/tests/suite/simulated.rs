//! Law: a product that simulates a recipe of eight bits computes its result and both gradients of operands that the recipe has
//! rounded, each in blocks along the dimension over which that product adds.

use burn::tensor::ops::ConvOptions;
use burn_amp_core::formats::{Contraction, Lines, Quantizer, Simulate};
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// A policy that simulates one of the recipes, in F16.
#[derive(Clone, Copy, Debug, Default)]
struct Simulating<const AT: usize>;

impl<const AT: usize> ConfigSource for Simulating<AT> {
    fn config() -> Result<Config, burn_amp_tests::ConfigError> {
        Ok(in_f16(|it| {
            it.loss_scale.mode = LossScaleMode::Off;
            it.simulate = Simulate::ALL[AT];
        }))
    }
}

/// A product with weights.
trait Multiplies {
    /// The op of the table whose dimensions it has.
    const OP: &'static str;
    const SHAPES: [&[usize]; 2];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B>;
}

struct OfRows;

impl Multiplies for OfRows {
    const OP: &'static str = "linear";
    const SHAPES: [&[usize]; 2] = [&[2, 35, 150], &[150, 136]];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B> {
        B::linear(x, weight, None)
    }
}

/// As a recurrent layer composes it.
struct Composed;

impl Multiplies for Composed {
    const OP: &'static str = "linear";
    const SHAPES: [&[usize]; 2] = [&[2, 7, 40], &[40, 24]];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B> {
        B::float_matmul(x, B::float_reshape(weight, Shape::new([1, 40, 24])))
    }
}

struct OfSequences;

impl Multiplies for OfSequences {
    const OP: &'static str = "conv1d";
    const SHAPES: [&[usize]; 2] = [&[3, 20, 17], &[6, 20, 3]];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B> {
        B::conv1d(x, weight, None, ConvOptions::new([2], [1], [1], 1))
    }
}

struct OfImages;

impl Multiplies for OfImages {
    const OP: &'static str = "conv2d";
    const SHAPES: [&[usize]; 2] = [&[2, 36, 9, 8], &[6, 18, 3, 2]];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B> {
        B::conv2d(x, weight, None, ConvOptions::new([1, 2], [1, 0], [2, 1], 2))
    }
}

struct OfVolumes;

impl Multiplies for OfVolumes {
    const OP: &'static str = "conv3d";
    const SHAPES: [&[usize]; 2] = [&[2, 20, 4, 5, 6], &[3, 20, 2, 3, 2]];

    fn run<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B> {
        B::conv3d(
            x,
            weight,
            None,
            ConvOptions::new([1; 3], [0, 1, 1], [1; 3], 1),
        )
    }
}

/// A result, and the gradients of both operands.
type Results = [Vec<f64>; 3];

/// Multiplies on a backend, where the gradient of the result is `grad`.
fn multiplied<P: Multiplies, A: AutodiffBackend>(
    [x, weight, grad]: [&TensorData; 3],
    device: &A::Device,
) -> Results {
    let from = |data: &TensorData| A::float_from_data(data.clone(), device);
    let read = |tensor: FloatTensor<A::InnerBackend>| {
        let data = read_sync(A::InnerBackend::float_into_data(tensor)).unwrap();
        data.convert::<f32>().iter::<f64>().collect()
    };
    let [x, weight] = [x, weight].map(|data| A::float_set_require_grad(from(data), true));
    let y = P::run::<A>(x.clone(), weight.clone());
    let grads = A::backward(A::float_sum(A::float_mul(y.clone(), from(grad))));
    [
        read(A::inner(y)),
        read(A::grad(&x, &grads).unwrap()),
        read(A::grad(&weight, &grads).unwrap()),
    ]
}

/// Values that F16 has, some of them large.
fn values(shape: &[usize], seed: u64) -> TensorData {
    let count = shape.iter().product::<usize>() as u64;
    let value = |at: u64| {
        let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let noise = (mixed >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let wide = if at % 11 == 3 { 8.0 } else { 1.0 };
        Precision::F16.round(noise * wide) as f32
    };
    TensorData::new((0..count).map(value).collect::<Vec<_>>(), shape.to_vec())
}

#[track_caller]
fn assert_simulates<P: Multiplies, const AT: usize>() {
    let recipe = Simulate::ALL[AT].recipe().unwrap();
    let [x, weight] = [0, 1].map(|at| values(P::SHAPES[at], at as u64));
    let shape = P::run::<Plain>(
        Plain::float_from_data(x.clone(), &here()),
        Plain::float_from_data(weight.clone(), &here()),
    )
    .shape();
    let grad = values(&shape, 2);

    let _policy = enter::<Simulating<AT>>();
    let found = multiplied::<P, B>([&x, &weight, &grad], &here());

    let lines = Contraction::of(P::OP, P::SHAPES, &shape).unwrap();
    let rounded = |data: &TensorData, by: Quantizer, lines: Lines| {
        let quantized = by.quantize(&data.iter::<f64>().collect::<Vec<_>>(), lines);
        TensorData::new(quantized.values, data.shape.clone()).convert::<f32>()
    };
    let plain = |operands: [&TensorData; 3]| multiplied::<P, PlainAutodiff>(operands, &here());
    let [of_x, of_weight] = lines.result;
    let forward = plain([
        &rounded(&x, recipe.activation, of_x),
        &rounded(&weight, recipe.weight, of_weight),
        &grad,
    ]);
    let [[of_weight, of_grad], [of_x, of_grad_too]] = lines.gradients;
    let for_x = plain([
        &x,
        &rounded(&weight, recipe.weight, of_weight),
        &rounded(&grad, recipe.gradient, of_grad),
    ]);
    let for_weight = plain([
        &rounded(&x, recipe.activation, of_x),
        &weight,
        &rounded(&grad, recipe.gradient, of_grad_too),
    ]);
    let expected = [&forward[0], &for_x[1], &for_weight[2]];
    for (what, (found, expected)) in ["result", "gradient of x", "gradient of the weight"]
        .into_iter()
        .zip(found.iter().zip(expected))
    {
        let most = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            // One rounding to F16, and sums of some hundred products in F32.
            let allowed = Precision::F16.epsilon() * expected.abs() + 1e-5 * most;
            assert!(
                (found - expected).abs() <= allowed,
                "{} {}: the {what}: {found}, not {expected}",
                recipe.name,
                P::OP
            );
        }
    }
}

fn every_product_simulates<const AT: usize>() {
    assert_simulates::<OfRows, AT>();
    assert_simulates::<Composed, AT>();
    assert_simulates::<OfSequences, AT>();
    assert_simulates::<OfImages, AT>();
    assert_simulates::<OfVolumes, AT>();
}

#[test]
fn every_product_with_a_weight_simulates_every_recipe() {
    every_product_simulates::<1>();
    every_product_simulates::<2>();
    every_product_simulates::<3>();
    every_product_simulates::<4>();
    every_product_simulates::<5>();
    every_product_simulates::<6>();
    every_product_simulates::<7>();
    every_product_simulates::<8>();
    every_product_simulates::<9>();
    assert_eq!(Simulate::ALL.len(), 10);
}

policy!(
    ByDefault,
    changed(Config::default(), |it| it.simulate = Simulate::Mxfp8)
);

#[test]
fn a_device_simulates_in_half_precision_that_is_not_fast() {
    let _policy = enter::<ByDefault>();
    let config = burn_amp::effective_config::<B>(&here()).unwrap();
    assert!(
        matches!(config.compute, Compute::Bf16 | Compute::F16),
        "{config}"
    );
}

#[test]
fn a_layer_that_computes_in_f32_simulates_nothing() {
    let _policy = enter::<Simulating<5>>();
    let [x, weight] = [0, 1].map(|at| values(OfRows::SHAPES[at], at as u64));
    let of = |data: &TensorData| Tensor::<B, 2>::from_data(data.clone(), &here());
    let rows = Tensor::<B, 3>::from_data(x.clone(), &here()).reshape([70, 150]);
    let found = burn_amp::full_precision(|| rows.matmul(of(&weight)));
    let rows = Tensor::<Plain, 3>::from_data(x, &here()).reshape([70, 150]);
    let expected = rows.matmul(Tensor::from_data(weight, &here()));
    assert_eq!(found.into_data(), expected.into_data());
}

#[test]
fn products_of_activations_are_computed_as_they_are() {
    let [x, y] = [0, 1].map(|at| values(&[4, 40, 40], at));
    let product = || {
        let of = |data: &TensorData| Tensor::<B, 3>::from_data(data.clone(), &here());
        of(&x).matmul(of(&y)).into_data()
    };
    let found = {
        let _policy = enter::<Simulating<5>>();
        product()
    };
    let _policy = enter::<Simulating<0>>();
    assert_eq!(found, product());
}
