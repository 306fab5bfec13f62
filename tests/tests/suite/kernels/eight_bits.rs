//! Tensors in eight bits, beside the formula in F64.

use burn_amp_kernels::eight_bits::{BLOCK, EightBits};
use burn_backend::DTypeUsage;

use super::prelude::*;

/// The shapes: whole blocks, a short last block, and one that is all there is.
const SHAPES: [&[usize]; 6] = [&[64], &[63], &[1], &[3, 65], &[2, 5, 8, 16], &[7, 129]];

/// The dtypes of which eight bits are kept; none on a device that cannot store i8, where `saved = "8bit"` is refused.
fn low() -> Vec<DType> {
    let mut all = dtypes();
    let stores_i8 = Plain::dtype_usage(&here(), DType::I8).contains(DTypeUsage::Storage);
    all.retain(|dtype| stores_i8 && *dtype != DType::F64);
    all
}

/// Asserts that a tensor comes back from eight bits as it should, where its blocks lie in row-major order.
#[track_caller]
fn assert_kept<B: Device>(values: &[f64], shape: &[usize], dtype: DType) {
    let x = tensor(values, shape, dtype);
    let values = read(&x);
    let found = read(&EightBits::<B>::of(x).values(dtype.into()));
    for (block, found) in values.chunks(BLOCK).zip(found.chunks(BLOCK)) {
        let most = block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let scale = most / 126.0;
        for (x, found) in block.iter().zip(found) {
            // The scale and the result are rounded to F32 and to the dtype.
            let slack = (f64::from(f32::EPSILON) + epsilon(dtype)) * most;
            let error = if x.abs() < scale / 2.0 {
                scale
            } else {
                scale / 2.0
            };
            assert!(
                (x - found).abs() <= error + slack,
                "{x} of a block up to {most} became {found} in {dtype:?}"
            );
            assert_eq!(*x == 0.0, *found == 0.0, "{x} became {found}");
            assert!(x * found >= 0.0, "{x} became {found}");
        }
    }
}

#[test]
fn an_element_is_off_by_a_share_of_the_largest_of_its_block_and_keeps_its_sign() {
    for dtype in low() {
        for shape in SHAPES {
            let elements = shape.iter().product();
            let mut values = noise(elements, 3);
            assert_kept::<Plain>(&values, shape, dtype);
            assert_kept::<References>(&values, shape, dtype);
            // A large number among small ones, and zeros.
            values[0] = 100.0;
            for value in values.iter_mut().skip(1).step_by(3) {
                *value = 0.0;
            }
            assert_kept::<Plain>(&values, shape, dtype);
            assert_kept::<References>(&values, shape, dtype);
        }
        assert_kept::<Plain>(&[0.0; 70], &[70], dtype);
        assert_kept::<References>(&[0.0; 70], &[70], dtype);
    }
}

#[test]
fn inf_and_nan_stay_what_they_are_and_spoil_no_neighbour() {
    fn check<B: Device>(dtype: DType) {
        let mut values = noise(2 * BLOCK, 5);
        let bad = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        values[7..10].copy_from_slice(&bad);
        values[BLOCK..].fill(f64::INFINITY);
        let x = tensor(&values, &[2 * BLOCK], dtype);
        let found = read(&EightBits::<B>::of(x).values(dtype.into()));
        assert_eq!(found[7..9], bad[..2], "{dtype:?}");
        assert!(found[9].is_nan());
        let finite = found.iter().filter(|x| x.is_finite()).count();
        assert_eq!(finite, BLOCK - 3);
        for (x, found) in values.iter().zip(&found).filter(|(x, _)| x.is_finite()) {
            assert!((x - found).abs() < 0.05, "{x} became {found}");
        }
        assert!(found[BLOCK..].iter().all(|x| *x == f64::INFINITY));
    }
    for dtype in low() {
        check::<Plain>(dtype);
        check::<References>(dtype);
    }
}

#[test]
fn a_tensor_in_any_layout_comes_back() {
    for dtype in low() {
        for x in layouts(1, dtype) {
            let values = read(&x);
            let most = values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let found = EightBits::<Plain>::of(x.clone()).values(FloatDType::F32);
            assert_eq!(found.shape(), x.shape());
            for (x, found) in values.iter().zip(read(&found)) {
                assert!(
                    (x - found).abs() <= 1.01 * most / 126.0,
                    "{x} became {found}"
                );
            }
        }
    }
}
