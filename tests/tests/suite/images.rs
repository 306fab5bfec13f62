//! Law: ReLUs, leaky ReLUs and sums of images in low precision are those of F32, rounded once, for every finite value of the
//! dtype and in any order of memory; so are their gradients.

use burn::tensor::{
    activation::{leaky_relu, relu},
    bf16, f16,
};
use burn_amp_tests::prelude::*;

type Image<B> = Tensor<B, 4>;
type Subject<B> = fn(Image<B>, Image<B>) -> Image<B>;
type Named = (&'static str, Subject<AmpAutodiff>, Subject<PlainAutodiff>);

/// The first image of a batch, its rows and columns one behind the other: small beside the images.
fn per_channel<B: Backend>(y: Image<B>) -> Image<B> {
    y.narrow(0, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1)
}

macro_rules! subjects {
    ($(|$x:ident, $y:ident| $body:expr;)+) => {
        [$((stringify!($body), |$x, $y| $body, |$x, $y| $body)),+]
    };
}

/// What is computed of images and others that are stored as they are.
fn subjects() -> [Named; 10] {
    subjects! {
        |x, _y| relu(x);
        |x, _y| leaky_relu(x, 0.2);
        |x, _y| leaky_relu(x, 1e-3);
        |x, _y| leaky_relu(x, 3.3);
        // Slopes of which the sign of a result says nothing.
        |x, _y| leaky_relu(x, 0.0);
        |x, _y| leaky_relu(x, -0.7);
        |x, y| x + y;
        |x, y| x + per_channel(y);
        |x, y| per_channel(y) + x;
        |x, _y| x.clone() + x;
    }
}

/// Every finite value of a low dtype, and zeros of both signs.
fn values(dtype: Precision) -> Vec<f32> {
    let value = |bits: u16| match dtype {
        Precision::BF16 => bf16::from_bits(bits).to_f32(),
        _ => f16::from_bits(bits).to_f32(),
    };
    let values = (0..=u16::MAX).map(value).filter(|x| x.is_finite());
    values.collect()
}

/// Images that a graph has, in a dtype, with their channels last in memory or not.
fn images<B: AutodiffBackend>(leaf: Image<B>, dtype: Option<FloatDType>, last: bool) -> Image<B> {
    let leaf = if last {
        leaf.permute([0, 3, 1, 2])
    } else {
        leaf
    };
    match dtype {
        None => leaf,
        Some(dtype) => leaf.cast(dtype),
    }
}

/// The result, and the gradients of both operands, for a gradient of which each number is one of the dtype.
fn run<B: AutodiffBackend>(
    subject: Subject<B>,
    [x, y, weights]: [&[f32]; 3],
    dtype: Option<FloatDType>,
    last: bool,
) -> [Vec<f32>; 3] {
    let shape = [x.len() / 256, 16, 4, 4];
    let leaf = |values: &[f32]| Tensor::<B, 1>::from_floats(values, &here()).reshape(shape);
    let (x, y) = (leaf(x).require_grad(), leaf(y).require_grad());
    let low = |leaf: &Image<B>| images(leaf.clone(), dtype, last);
    let result = subject(low(&x), low(&y));
    let grads = (result.clone() * images(leaf(weights), dtype, last))
        .sum()
        .backward();
    let read = |data: TensorData| data.convert::<f32>().into_vec().unwrap();
    let gradient = |of: &Image<B>| {
        of.grad(&grads)
            .map(Tensor::into_data)
            .map_or(Vec::new(), read)
    };
    [read(result.into_data()), gradient(&x), gradient(&y)]
}

fn are_those_of_f32(dtype: Precision) {
    let all = values(dtype);
    let stored = match dtype {
        Precision::BF16 => FloatDType::BF16,
        _ => FloatDType::F16,
    };
    // So small that neither sums nor their gradients leave the range of F16.
    let mut small: Vec<f32> = all.iter().map(|x| x % 64.0).collect();
    small.rotate_left(77);
    let weights: Vec<f32> = (0..all.len()).map(|i| (i % 7) as f32 - 3.0).collect();
    for (name, amp, plain) in subjects() {
        for last in [false, true] {
            let operands = [all.as_slice(), &small, &weights];
            let found = run(amp, operands, Some(stored), last);
            let expected = run(plain, operands, None, last);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.len(), expected.len(), "{name}");
                for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let rounded = dtype.round((*expected).into()) as f32;
                    assert_eq!(*found, rounded, "{name} in {dtype}, {at} of {}", all[i]);
                }
            }
        }
    }
}

#[test]
fn ops_on_images_are_those_of_f32_rounded_once() {
    under_each!(|| are_those_of_f32(precision()), InBf16, UnscaledF16);
}

/// The ReLU of a norm, that of its sum with its operand, and the norm itself.
fn rectified<const D: usize>(sizes: [usize; D], channels: [usize; D]) -> [DType; 3] {
    let rows = [sizes.iter().product::<usize>() / 32, 32];
    let x = Tensor::<AmpAutodiff, 2>::ones(rows, &here()).require_grad();
    let low = x.matmul(Tensor::eye(32, &here())).reshape(sizes);
    let scale = Tensor::<AmpAutodiff, D>::full(channels, 0.5, &here());
    let norm = (low.clone() - scale.clone()) * scale;
    let dtype = |tensor: Tensor<AmpAutodiff, D>| burn_amp::storage_dtype(&tensor);
    [
        dtype(relu(norm.clone())),
        dtype(relu(norm.clone() + low)),
        dtype(norm),
    ]
}

#[test]
fn a_relu_of_images_or_of_a_residual_block_is_stored_as_its_operand() {
    fn is_stored() {
        let low = super::laws::drive::burn_dtype(precision());
        let of_images = rectified([2, 16, 8, 8], [1, 16, 1, 1]);
        assert_eq!(of_images, [low, low, DType::F32]);
        let of_rows = rectified([64, 32], [1, 32]);
        assert_eq!(of_rows, [DType::F32, low, DType::F32]);
    }
    under_each!(is_stored, InBf16, UnscaledF16);
}
