//! Law: a norm on a low tensor has the values and gradients of F32 on the same numbers, whoever reads it; each ReLU behind it rounds both once, and so does a sum of two norms.

use burn::{
    nn::{GroupNormConfig, InstanceNormConfig, RmsNormConfig},
    tensor::activation,
};
use burn_amp_tests::prelude::*;

const SHAPE: [usize; 4] = [8, 16, 8, 8];

/// An activation, and a scale and a shift per channel.
type Operands<B> = (Image<B>, Tensor<B, 1>, Tensor<B, 1>);
type Image<B> = Tensor<B, 4>;
type Subject<B> = fn(Operands<B>) -> Image<B>;

fn batch_norm<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let mut norm = BatchNormConfig::new(16).init(&x.device());
    norm.gamma = Param::from_tensor(gamma);
    norm.beta = Param::from_tensor(beta);
    norm.forward(x)
}

fn batch_norm_relu<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    activation::relu(batch_norm((x, gamma, beta)))
}

fn batch_norm_silu<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    activation::silu(batch_norm((x, gamma, beta)))
}

/// A ReLU6, a bound on one side, and a sigmoid that is read by itself.
fn batch_norm_bounded<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let norm = batch_norm((x, gamma, beta));
    let bounded = norm.clone().clamp(-0.5, 0.75) + norm.clone().clamp_min(0.25);
    bounded * activation::sigmoid(norm.clone()) + norm.clamp_max(0.125)
}

fn group_norm<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let mut norm = GroupNormConfig::new(4, 16).init(&x.device());
    norm.gamma = Some(Param::from_tensor(gamma));
    norm.beta = Some(Param::from_tensor(beta));
    norm.forward(x)
}

fn instance_norm<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let mut norm = InstanceNormConfig::new(16).init(&x.device());
    norm.gamma = Some(Param::from_tensor(gamma));
    norm.beta = Some(Param::from_tensor(beta));
    norm.forward(x)
}

fn rms_norm<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let mut norm = RmsNormConfig::new(16).init(&x.device());
    norm.gamma = Param::from_tensor(gamma);
    norm.forward(x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2]) + beta.reshape([1, 16, 1, 1])
}

fn layer_norm_by_hand<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let rows = x.permute([0, 2, 3, 1]).reshape([512, 16]);
    let mean = rows.clone().mean_dim(1);
    let centered = rows - mean;
    let variance = centered.clone().square().mean_dim(1);
    let normal = centered / (variance + 1e-5).sqrt();
    let rows = normal * gamma.unsqueeze() + beta.unsqueeze();
    rows.reshape([8, 8, 8, 16]).permute([0, 3, 1, 2])
}

/// A modulation per image and channel, and one of all channels behind it.
fn modulated<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let gamma = gamma.reshape([1, 16, 1, 1]);
    let per_image = Tensor::arange(1..9, &x.device()).float() / 8.0;
    // burn-cubecl sums the gradient of an expanded operand wrongly if a transposition follows.
    let x = x.swap_dims(2, 3) * (gamma.clone() * per_image.reshape([8, 1, 1, 1]));
    (x + beta.reshape([1, 16, 1, 1])) / (gamma + 3.0)
}

/// A residual block whose identity is a ReLU, and its own ReLU.
fn residual_relu<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let identity = batch_norm_relu((x.clone(), beta.clone(), gamma.clone()));
    activation::relu(batch_norm((x, gamma, beta)) + identity)
}

/// A residual block whose identity is another norm.
fn shortcut_relu<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let shortcut = group_norm((x.clone(), beta.clone(), gamma.clone()));
    activation::relu(batch_norm((x, gamma, beta)) + shortcut)
}

/// Residual blocks one behind the other, the first of which adds the low tensor itself.
fn residuals<B: AutodiffBackend>((x, gamma, beta): Operands<B>) -> Image<B> {
    let first = x.clone() + group_norm((x.clone(), gamma.clone(), beta.clone()));
    instance_norm((x, gamma, beta)) + activation::relu(first)
}

/// The values of a result, and the gradients of the activation, of γ and of β.
fn run<B: AutodiffBackend>(subject: Subject<B>, x: &[f32]) -> [Vec<f32>; 4] {
    let leaf = Tensor::<B, 1>::from_floats(x, &here())
        .reshape([128, 64])
        .require_grad();
    let per_channel = |seed: f32| {
        let values: Vec<f32> = (0..16)
            .map(|i| 1.0 + (i as f32 * seed).sin() / 2.0)
            .collect();
        Tensor::<B, 1>::from_floats(values.as_slice(), &here()).require_grad()
    };
    let (gamma, beta) = (per_channel(1.0), per_channel(2.0));
    // The result of a product is in low precision.
    let low = leaf.clone().matmul(Tensor::eye(64, &here())).reshape(SHAPE);
    let y = subject((low, gamma.clone(), beta.clone()));
    let count = SHAPE.iter().product::<usize>() as i64;
    let weights = Tensor::arange(0..count, &here())
        .float()
        .reshape(SHAPE)
        .sin();
    let grads = (y.clone() * weights).sum().backward();
    let read = |data: TensorData| data.convert::<f32>().to_vec().unwrap();
    [
        read(y.into_data()),
        read(leaf.grad(&grads).unwrap().into_data()),
        read(gamma.grad(&grads).unwrap().into_data()),
        read(beta.grad(&grads).unwrap().into_data()),
    ]
}

/// The largest difference, over the largest number.
fn error(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0f32, |largest, x| largest.max(x.abs()));
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    differences.fold(0f32, f32::max) / largest
}

fn assert_as_in_f32<B: AutodiffBackend>(
    name: &str,
    low: Subject<B>,
    plain: Subject<PlainAutodiff>,
    dtype: DType,
    offset: f32,
) {
    let values = (0..8192).map(|i| (i * 7919 % 1000) as f32 / 250.0 - 2.0 + offset);
    let x: Vec<f32> = values
        .map(|x| match dtype {
            DType::F16 => Precision::F16.round(x.into()) as f32,
            _ => Precision::BF16.round(x.into()) as f32,
        })
        .collect();
    let epsilon = match dtype {
        DType::F16 => Precision::F16.epsilon(),
        _ => Precision::BF16.epsilon(),
    } as f32;
    let (found, expected) = (run(low, &x), run(plain, &x));
    // A ReLU of images is stored as they are, and so are its gradient and a norm that is added to another one.
    let relus = match name {
        "batch_norm_relu" | "residuals" => 1.0,
        "residual_relu" | "shortcut_relu" => 2.0,
        _ => 0.0,
    };
    // Both compute in F32; sums of 512 numbers in another order, of numbers as large as the offset.
    let in_f32 = 512.0 * f32::EPSILON * (1.0 + offset) + relus * epsilon;
    let values = error(&found[0], &expected[0]);
    assert!(
        values <= in_f32,
        "{name} in {dtype:?}: values off by {values}"
    );
    // The gradient of the activation is rounded once on its way to the product, and once in it.
    let gradient = error(&found[1], &expected[1]);
    assert!(
        gradient <= (2.0 + relus) * epsilon,
        "{name} in {dtype:?}: gradient off by {gradient}"
    );
    for of in [2, 3] {
        let gradient = error(&found[of], &expected[of]);
        assert!(
            gradient <= in_f32,
            "{name} in {dtype:?}: factor {of} off by {gradient}"
        );
    }
}

macro_rules! subjects {
    ($($subject:ident)*) => {
        [$((stringify!($subject), $subject, $subject)),*]
    };
}

type Named = (&'static str, Subject<AmpAutodiff>, Subject<PlainAutodiff>);

const SUBJECTS: [Named; 12] = subjects!(
    batch_norm batch_norm_relu batch_norm_silu batch_norm_bounded group_norm instance_norm rms_norm layer_norm_by_hand
    modulated
    residual_relu shortcut_relu residuals
);

#[test]
fn norms_are_those_of_f32_on_the_same_numbers() {
    for (name, amp, plain) in SUBJECTS {
        if Plain::supports_dtype(&here(), DType::BF16) {
            within::<InBf16, _>(|| assert_as_in_f32(name, amp, plain, DType::BF16, 0.0));
        }
        within::<UnscaledF16, _>(|| assert_as_in_f32(name, amp, plain, DType::F16, 0.0));
    }
}

/// `x / std - mean / std` would lose the digits in which the elements differ.
#[test]
fn a_large_mean_costs_no_digits() {
    let norms = SUBJECTS
        .into_iter()
        .filter(|(name, ..)| name.ends_with("_norm"));
    for (name, f16, plain) in norms.filter(|(name, ..)| *name != "rms_norm") {
        within::<UnscaledF16, _>(|| assert_as_in_f32(name, f16, plain, DType::F16, 500.0));
    }
}

/// 41 / 41 is 1, and 41 · (1 / 41) is 0.99999994; a subnormal divisor has no reciprocal in F32.
fn a_quotient_is_a_division() {
    fn floors<B: Backend>() -> [Vec<f32>; 2] {
        let row = Tensor::<B, 1>::from_floats([1.0; 64], &here())
            .cumsum(0)
            .reshape([1, 64]);
        // Whole numbers up to 64 are exact in every dtype.
        let low = row
            .clone()
            .repeat_dim(0, 32)
            .matmul(Tensor::eye(64, &here()));
        let ones = (low.clone() / row).floor();
        let tiny = Tensor::<B, 2>::full([1, 64], 1e-39, &here());
        let zeros = (low - 1.0).clamp_max(0.0).matmul(Tensor::eye(64, &here())) / (tiny + 0.0);
        [ones, zeros].map(|x| x.into_data().convert::<f32>().to_vec().unwrap())
    }
    let expected = floors::<Plain>();
    assert_eq!(expected[0], [1.0; 32 * 64]);
    assert_eq!(floors::<burn_amp_tests::Amp>()[0], expected[0]);
    // Some drivers flush subnormal numbers.
    if cfg!(not(feature = "cubecl")) {
        assert_eq!(floors::<burn_amp_tests::Amp>()[1], expected[1]);
    }
}

#[test]
fn quotients_are_those_of_a_division() {
    under_each!(a_quotient_is_a_division, InBf16, UnscaledF16);
}
