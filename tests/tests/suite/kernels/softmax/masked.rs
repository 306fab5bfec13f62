//! Softmax of scores that are scaled and masked.

use super::*;

const SCALE: f32 = 0.375;

/// The shape of the scores: items, heads, queries, keys.
const SCORES: [usize; 4] = [2, 3, 4, 8];

/// The shapes of masks that are broadcast to [`SCORES`], and those that no run of rows describes.
const MASKS: [[usize; 4]; 8] = [
    [1, 1, 4, 8],
    [2, 1, 1, 8],
    [2, 1, 4, 8],
    [2, 3, 4, 8],
    [1, 3, 1, 8],
    [1, 1, 1, 8],
    [2, 3, 1, 1],
    [2, 3, 4, 1],
];

/// Hides about a third of the scores, in one place never the whole row.
fn mask(shape: [usize; 4]) -> BoolTensor<Plain> {
    let count: usize = shape.iter().product();
    let values: Vec<bool> = (0..count).map(|i| (i * 7 + i / 5) % 3 == 1).collect();
    of_bools(values, shape)
}

fn of_bools(values: Vec<bool>, shape: [usize; 4]) -> BoolTensor<Plain> {
    let dtype = get_device_settings::<Plain>(&here()).bool_dtype;
    let data = TensorData::new(values, shape).convert_dtype(dtype.into());
    Plain::bool_from_data(data, &here())
}

/// Masks as programs make them: of all shapes, expanded, swapped, and cut out of larger ones.
fn masks() -> Vec<BoolTensor<Plain>> {
    let mut masks = MASKS.map(mask).to_vec();
    masks.push(Plain::bool_expand(mask([1, 1, 4, 8]), [2, 3, 4, 8].into()));
    masks.push(Plain::bool_swap_dims(mask([1, 1, 8, 4]), 2, 3));
    let slices = [0..1, 0..1, 1..5, 3..11].map(Slice::from);
    masks.push(Plain::bool_slice(mask([1, 1, 6, 13]), &slices));
    masks
}

fn before(scale: f32, mask: BoolTensor<Plain>, scores: [usize; 4], value: f32) -> Before {
    let hides = Plain::bool_expand(mask.clone(), scores.into());
    let hides = read_sync(Plain::bool_into_data(hides)).unwrap();
    let hides = hides.iter::<bool>().collect();
    let hidden = Some(Hidden {
        elements: mask,
        hides,
    });
    Before {
        scale,
        hidden,
        value,
    }
}

/// Compares the op and its gradient with the host.
fn assert_masked(
    what: &str,
    shape: &[usize],
    dim: usize,
    dtype: DType,
    before: impl Fn() -> Before,
) {
    let x = noisy(shape, 1, dtype);
    let forward = Forward(before());
    assert_lines(&forward, what, std::slice::from_ref(&x), dim);
    let y = softmax::forward::<Plain>(x, dim, before().scale_mask());
    assert_lines(&Backward(before()), what, &[y, noisy(shape, 2, dtype)], dim);
}

#[test]
fn masks_of_any_shape_and_layout_hide_what_they_say_along_any_dimension() {
    for dtype in dtypes() {
        for (number, mask) in masks().into_iter().enumerate() {
            for (dim, scale) in [(3, SCALE), (3, 1.0), (0, SCALE), (1, SCALE), (2, SCALE)] {
                let before = || before(scale, mask.clone(), SCORES, -1e4);
                assert_masked(&format!("mask {number}"), &SCORES, dim, dtype, before);
            }
        }
    }
}

/// The factor acts in F32: in the dtype of the operand 0.3 would be 0.2998 or 0.3008.
#[test]
fn a_factor_needs_no_mask_and_is_not_rounded() {
    for dtype in dtypes() {
        for (shape, scale) in [
            (&[3, 5][..], SCALE),
            (&[64], SCALE),
            (&[2, 3, 300], SCALE),
            (&[2, 20_000], SCALE),
            (&[4, 64], 0.3),
        ] {
            let before = || Before { scale, ..PLAIN };
            assert_masked("no mask", shape, shape.len() - 1, dtype, before);
        }
    }
}

/// Rows that are longer than what a unit keeps in registers, and masks whose rows do not fill a vector.
#[test]
fn masked_rows_may_be_long_or_odd() {
    for dtype in dtypes() {
        for n in [1, 7, 33, 5000, 20_000] {
            let shape = [1, 2, 3, n];
            let before = || before(SCALE, mask([1, 1, 3, n]), shape, -1e4);
            assert_masked("long rows", &shape, 3, dtype, before);
        }
    }
}

/// As in Burn: -inf everywhere gives NaN, whose gradient is 0 where the mask is; a finite value everywhere gives equal
/// weights.
#[test]
fn hidden_rows_are_as_in_burn() {
    let shape = [1, 1, 2, 8];
    let hides: Vec<bool> = (0..16).map(|i| i < 8).collect();
    let mask = of_bools(hides, shape);
    let before = |value| before(SCALE, mask.clone(), shape, value);
    for dtype in dtypes() {
        assert_masked("a hidden row", &shape, 3, dtype, || before(-1e4));

        let infinite = || before(f32::NEG_INFINITY).scale_mask();
        let y = softmax::forward::<Plain>(noisy(&shape, 1, dtype), 3, infinite());
        let values = read(&y);
        assert!(values[..8].iter().all(|y| y.is_nan()), "{values:?}");
        assert!(values[8..].iter().all(|y| y.is_finite()), "{values:?}");
        let dx = softmax::backward::<Plain>(y, noisy(&shape, 2, dtype), 3, infinite());
        let dx = read(&dx);
        assert_eq!(dx[..8], [0.0; 8], "{dtype:?}");
        assert!(dx[8..].iter().all(|dx| dx.is_finite()), "{dx:?}");
    }
}
