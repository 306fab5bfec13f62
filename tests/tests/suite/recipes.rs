//! Law: what a product is said to lose in eight bits is what loops over the numbers of a format compute, and does not depend on
//! the op that multiplies; what a step is said to lose is what its gradients lose when training simulates.

use burn_amp::replay::{Loss, RecipeLosses, Step, recipe_losses, write_next_step};
use burn_amp_core::{
    formats::{Format, Recipe, Simulate},
    replay::decibels,
};
use burn_amp_tests::{InForce, prelude::*};

policy!(InF32, computing_in(Compute::F32));

/// The backend on which a step is run again.
type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InForce>>;

/// What the products of a step lose.
fn losses(step: impl FnOnce()) -> RecipeLosses {
    let _policy = enter::<InF32>();
    let of = (std::process::id(), std::thread::current().id());
    let file = std::env::temp_dir().join(format!("{of:?}_recipes.safetensors"));
    write_next_step::<B>(&Default::default(), &file);
    step();
    let step = Step::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    recipe_losses::<Flex>(&step, &Default::default()).unwrap()
}

fn at(recipe: &str) -> usize {
    let place = Recipe::ALL.iter().position(|it| it.name == recipe);
    place.expect("a recipe")
}

/// Random values with a few large ones.
fn values(shape: &[usize], seed: u64) -> Vec<f64> {
    let count = shape.iter().product::<usize>() as u64;
    let noise = |at: u64| {
        let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    // In F32, as the step has them.
    let wide = |at: u64| if at % 11 == 3 { 8.0 } else { 1.0 };
    let values = (0..count).map(|at| f64::from((noise(at) * wide(at)) as f32));
    values.collect()
}

fn tensor<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D> {
    Tensor::from_data(
        TensorData::new(values(&shape, seed), shape),
        &Default::default(),
    )
}

/// The E4M3 number that is nearest to `x`, by a look at all of them.
fn nearest(x: f64) -> f64 {
    let all = (0..=u8::MAX).map(|code| Format::E4M3.decode(code));
    let finite = all.filter(|number| number.is_finite());
    finite
        .min_by(|a, b| (a - x).abs().total_cmp(&(b - x).abs()))
        .unwrap()
}

/// Rows of `len` numbers, each rounded to E4M3 under a scale of its own.
fn rounded(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |row: &Vec<f64>| {
        let most = row.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let scale = f64::from((most / 448.0) as f32);
        row.iter().map(|x| nearest(x / scale) * scale).collect()
    };
    rows.iter().map(row).collect()
}

/// The products of each row with each other row.
fn products(lhs: &[Vec<f64>], rhs: &[Vec<f64>]) -> Vec<f64> {
    let product = |x: &Vec<f64>, y: &Vec<f64>| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let rows = lhs.iter().flat_map(|x| rhs.iter().map(move |y| (x, y)));
    rows.map(|(x, y)| product(x, y)).collect()
}

fn transposed(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..rows[0].len())
        .map(|at| rows.iter().map(|row| row[at]).collect())
        .collect()
}

/// The signal to noise of a product of rows with rows in recipe `fp8-row`.
fn expected(lhs: &[Vec<f64>], rhs: &[Vec<f64>]) -> f64 {
    let exact = products(lhs, rhs);
    let found = products(&rounded(lhs), &rounded(rhs));
    let noise: f64 = exact
        .iter()
        .zip(&found)
        .map(|(x, y)| (x - y) * (x - y))
        .sum();
    10.0 * (exact.iter().map(|x| x * x).sum::<f64>() / noise).log10()
}

#[test]
fn the_losses_of_a_product_are_those_of_loops_over_the_numbers_of_e4m3() {
    let (m, k, n) = (7, 40, 9);
    let losses = losses(|| {
        let gradient = tensor([m, n], 3);
        let x = tensor([m, k], 1).require_grad();
        let w = tensor([k, n], 2).require_grad();
        (x.matmul(w) * gradient).sum().backward();
    });
    let rows = |values: Vec<f64>, len: usize| -> Vec<Vec<f64>> {
        values.chunks(len).map(<[f64]>::to_vec).collect()
    };
    let x = rows(values(&[m, k], 1), k);
    let w = rows(values(&[k, n], 2), n);
    let g = rows(values(&[m, n], 3), n);
    let expected = [
        expected(&x, &transposed(&w)),
        expected(&g, &w),
        expected(&transposed(&x), &transposed(&g)),
    ];
    assert_eq!(losses.products.len(), 1);
    let found = losses.products[0].recipes[at("fp8-row")].decibels;
    for (found, expected) in found.into_iter().zip(expected) {
        let found = found.unwrap();
        // The step is in F32, whose roundings are 100 dB below.
        assert!((found - expected).abs() < 0.01, "{found} {expected}");
    }
}

/// What a loss is, to a hundredth of a dB.
fn told(loss: &Loss) -> [Option<i64>; 3] {
    loss.decibels
        .map(|found| found.map(|found| (100.0 * found).round() as i64))
}

#[test]
fn a_linear_layer_a_product_and_a_convolution_of_single_pixels_lose_the_same() {
    let (n, inputs, outputs, size) = (2, 48, 16, 4);
    let weight = || tensor([inputs, outputs], 5);
    let images = || tensor([n, size, size, inputs], 6);
    let gradient = || tensor([n, size, size, outputs], 7);
    let by_product = losses(|| {
        let w = weight()
            .require_grad()
            .unsqueeze::<4>()
            .expand([n, size, inputs, outputs]);
        let y = images().require_grad().matmul(w);
        (y * gradient()).sum().backward();
    });
    let by_linear = losses(|| {
        let mut linear = LinearConfig::new(inputs, outputs)
            .with_bias(true)
            .init::<B>(&Default::default());
        linear.weight = Param::from_tensor(weight());
        let y = linear.forward(images().require_grad());
        (y * gradient()).sum().backward();
    });
    let by_convolution = losses(|| {
        let mut conv = Conv2dConfig::new([inputs, outputs], [1, 1])
            .with_bias(false)
            .init::<B>(&Default::default());
        let kernel = weight().transpose().reshape([outputs, inputs, 1, 1]);
        conv.weight = Param::from_tensor(kernel);
        let y = conv.forward(images().permute([0, 3, 1, 2]).require_grad());
        (y * gradient().permute([0, 3, 1, 2])).sum().backward();
    });
    let of = |losses: &RecipeLosses, recipe: &str| told(&losses.products[0].recipes[at(recipe)]);
    for losses in [&by_product, &by_linear, &by_convolution] {
        assert_eq!(losses.products.len(), 1, "{losses:?}");
    }
    // One scale for a tensor: all is the same, however the op names it.
    for recipe in ["fp8", "fp8-tensor"] {
        let linear = of(&by_linear, recipe);
        assert!(linear.iter().all(Option::is_some), "{linear:?}");
        assert_eq!(of(&by_convolution, recipe), linear, "{recipe}");
        assert_eq!(of(&by_product, recipe)[..2], linear[..2], "{recipe}");
    }
    // Along the channels, in the forward product.
    for recipe in ["fp8-row", "mxfp8", "mxfp8-floor", "nvfp4", "int8-row"] {
        assert_eq!(
            of(&by_convolution, recipe)[..2],
            of(&by_linear, recipe)[..2],
            "{recipe}"
        );
    }
    // More scales lose less, and more bits, too.
    let lowest = |recipe: &str| by_linear.products[0].recipes[at(recipe)].lowest().unwrap();
    assert!(lowest("fp8-row") > lowest("fp8-tensor"));
    assert!(lowest("fp8-row") > lowest("nvfp4"));
}

#[test]
fn a_gradient_that_the_step_does_not_compute_is_not_looked_at() {
    let losses = losses(|| {
        let w = tensor([8, 4], 2).require_grad();
        tensor([3, 8], 1).matmul(w).square().sum().backward();
    });
    let [result, input, weight] = losses.products[0].recipes[at("fp8-row")].decibels;
    assert!(result.is_some() && input.is_none() && weight.is_some());
}

policy!(InRow, simulating(Simulate::Fp8Row));
policy!(InHalf, simulating(Simulate::Off));

fn simulating(simulate: Simulate) -> Config {
    in_bf16(|config| config.simulate = simulate)
}

/// Two layers, and the gradients of their weights, one behind the other.
fn two_layers() -> Vec<f64> {
    let (x, w, v) = (tensor([6, 40], 1), tensor([40, 16], 2), tensor([16, 9], 3));
    let [w, v] = [w, v].map(Tensor::require_grad);
    let hidden = x.matmul(w.clone()).tanh();
    let grads = hidden.matmul(v.clone()).square().sum().backward();
    let gradients = [w, v].map(|weight| weight.grad(&grads).unwrap().into_data());
    let values = gradients
        .iter()
        .flat_map(|data| data.iter::<f64>().collect::<Vec<_>>());
    values.collect()
}

#[test]
fn the_losses_of_a_step_are_those_of_a_training_that_simulates() {
    let losses = losses(|| {
        two_layers();
    });
    let step = losses.step.unwrap();
    let exact = {
        let _policy = enter::<InF32>();
        two_layers()
    };
    let in_row = {
        let _policy = enter::<InRow>();
        two_layers()
    };
    let in_half = {
        let _policy = enter::<InHalf>();
        two_layers()
    };
    assert_eq!(step.dtype, Precision::BF16);
    assert_eq!(step.recipes.len(), Recipe::ALL.len());
    assert_eq!(step.recipes[at("fp8-row")], decibels(&in_row, &exact));
    assert_eq!(step.low, decibels(&in_half, &exact));
    assert!(step.low > step.recipes[at("fp8-row")]);
    assert!(step.recipes[at("fp8-row")] > step.recipes[at("nvfp4")]);
}
