//! Sign masks, compared with Burn's own backward pass of a ReLU.

use burn::tensor::{
    DType, TensorData, bf16, f16,
    ops::{ActivationOps, FloatTensorOps},
};
use burn_amp_kernels::sign_mask;
use burn_amp_tests::Plain;

use super::rows::{Float, dtypes, layouts, noisy, read};

/// Checks that the gradient passes where Burn lets it pass.
fn assert_as_burn(what: &str, x: Float, gradient: Float) {
    let expected = read(&Plain::relu_backward(x.clone(), gradient.clone()));
    let masked = read(&sign_mask::zeroed::<Plain>(
        gradient,
        sign_mask::not_positive::<Plain>(x.clone(), None),
        None,
    ));
    let results = read(&x).into_iter().zip(masked.into_iter().zip(expected));
    for (x, (masked, expected)) in results {
        // Burn's backends disagree on the gradient of NaN.
        assert!(
            masked == expected || x.is_nan(),
            "{what}, {x}: {masked} for {expected}"
        );
    }
}

#[test]
fn every_number_in_half_precision_is_masked_as_burn_masks_it() {
    let device = Default::default();
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
            let x = Plain::float_from_data(data, &device);
            assert_as_burn(&format!("{dtype:?}"), x, noisy(&[1 << 16], 1, dtype));
        }
    }
}

#[test]
fn masks_of_any_length_are_those_of_burn() {
    for dtype in dtypes() {
        for n in [1, 2, 31, 32, 33, 63, 64, 65, 1000, 4099] {
            let (x, gradient) = (noisy(&[n], 1, dtype), noisy(&[n], 2, dtype));
            assert_as_burn(&format!("{n} of {dtype:?}"), x, gradient);
        }
    }
}

#[test]
fn the_layouts_of_operand_and_gradient_do_not_matter() {
    for dtype in dtypes() {
        for x in layouts(1, dtype) {
            for gradient in layouts(2, dtype) {
                assert_as_burn(&format!("{dtype:?}"), x.clone(), gradient);
            }
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

#[test]
fn empty_tensors_are_masked() {
    for dtype in dtypes() {
        let masked = sign_mask::zeroed::<Plain>(
            noisy(&[0], 1, dtype),
            sign_mask::not_positive::<Plain>(noisy(&[0], 2, dtype), None),
            None,
        );
        assert_eq!(read(&masked), [0.0; 0]);
    }
}
