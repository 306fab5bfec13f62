//! Sign masks: the gradient of a ReLU.

use burn::tensor::{bf16, f16};
use burn_amp_kernels::sign_mask;

use super::prelude::*;

/// A gradient, or the sum of two in the dtype of the first and in F32, where the operand lets it pass.
struct Zeroed<const OPERANDS: usize>;

impl<const OPERANDS: usize> OnLines for Zeroed<OPERANDS> {
    const OPERANDS: usize = OPERANDS;
    const SHAPES: &[&[usize]] = &[
        &[1],
        &[2],
        &[31],
        &[32],
        &[33],
        &[63],
        &[64],
        &[65],
        &[1000],
        &[4099],
        &[0],
    ];

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        let mask = sign_mask::not_positive::<B>(operands[0].clone(), None);
        match &operands[1..] {
            [gradient] => vec![sign_mask::zeroed::<B>(gradient.clone(), mask, None)],
            [one, other] => [one.dtype(), DType::F32]
                .map(|dtype| {
                    let gradients = [one.clone(), other.clone()];
                    sign_mask::sum_zeroed::<B>(gradients, mask.clone(), None, dtype.into())
                })
                .into(),
            _ => unreachable!("there are one or two gradients"),
        }
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        match operands[1..] {
            [one, _] => vec![one, DType::F32],
            _ => vec![operands[1]],
        }
    }

    fn host(&self, _operands: &[Float], _dim: usize) -> Host<'_> {
        Box::new(|line| {
            // Burn's backends disagree on the gradient of NaN.
            // A sum is rounded once.
            let exact = if OPERANDS == 2 { EXACT } else { 0.0 };
            let near = |(at, x): (usize, &f64)| {
                let gradient: f64 = line.of[1..].iter().map(|gradient| gradient[at]).sum();
                (
                    if *x > 0.0 { gradient } else { 0.0 },
                    if x.is_nan() { f64::INFINITY } else { exact },
                )
            };
            vec![line.of[0].iter().enumerate().map(near).collect(); OPERANDS - 1]
        })
    }
}

#[test]
fn a_mask_lets_pass_what_is_positive() {
    law::holds(&Zeroed::<2>);
    law::holds(&Zeroed::<3>);
}

#[test]
fn every_number_in_half_precision_is_masked() {
    let bits = || 0..=u16::MAX;
    let all = |dtype| match dtype {
        DType::F16 => Some(TensorData::new(
            bits().map(f16::from_bits).collect(),
            [1 << 16],
        )),
        DType::BF16 => Some(TensorData::new(
            bits().map(bf16::from_bits).collect(),
            [1 << 16],
        )),
        _ => None,
    };
    for dtype in dtypes() {
        if let Some(data) = all(dtype) {
            let x = Plain::float_from_data(data, &here());
            let operands = [x, noisy(&[1 << 16], 1, dtype)];
            assert_lines(&Zeroed::<2>, "all numbers", &operands, 0);
            law::assert_lines_on::<References, _>(&Zeroed::<2>, "all numbers", &operands, 0);
        }
    }
}

#[test]
fn a_mask_in_the_order_of_another_tensor_is_the_same_mask() {
    for dtype in dtypes() {
        for x in layouts(1, dtype) {
            for (like, gradient) in layouts(2, dtype).into_iter().zip(layouts(3, dtype)) {
                let expected = sign_mask::zeroed::<Plain>(
                    gradient.clone(),
                    sign_mask::not_positive::<Plain>(x.clone(), None),
                    None,
                );
                let mask = sign_mask::not_positive::<Plain>(x.clone(), Some(&like));
                let masked = sign_mask::zeroed::<Plain>(gradient, mask, Some(&like));
                assert_eq!(read(&masked), read(&expected), "{dtype:?}");
            }
        }
    }
}
