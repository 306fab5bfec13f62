//! Softmax of a scaled and masked operand, and its gradient, compared with the host.

use burn::tensor::{Bool, DType, Tensor, TensorData, TensorMetadata, ops::BoolTensor};
use burn_amp_kernels::softmax::{self, Mask, ScaleMask};
use burn_amp_tests::Plain;

use super::rows::{Float, along, assert_near, dtypes, noisy, read, slack};

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

/// A mask, and whether it hides each of the scores of a shape.
struct Case {
    name: String,
    elements: BoolTensor<Plain>,
    hides: Vec<bool>,
}

fn case(name: String, mask: Tensor<Plain, 4, Bool>, scores: [usize; 4]) -> Case {
    let hides = mask.clone().expand(scores).into_data();
    Case {
        name,
        elements: mask.into_primitive(),
        hides: hides.iter::<bool>().collect(),
    }
}

/// Hides about a third of the scores, in one place never the whole row.
fn mask(shape: [usize; 4]) -> Tensor<Plain, 4, Bool> {
    let count: usize = shape.iter().product();
    let values: Vec<bool> = (0..count).map(|i| (i * 7 + i / 5) % 3 == 1).collect();
    Tensor::from_data(TensorData::new(values, shape), &Default::default())
}

/// Masks as programs make them: of all shapes, expanded, swapped, and cut out of larger ones.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = MASKS
        .into_iter()
        .map(|shape| case(format!("{shape:?}"), mask(shape), SCORES))
        .collect();
    cases.push(case(
        "expanded".into(),
        mask([1, 1, 4, 8]).expand([2, 3, 4, 8]),
        SCORES,
    ));
    cases.push(case(
        "swapped".into(),
        mask([1, 1, 8, 4]).swap_dims(2, 3),
        SCORES,
    ));
    cases.push(case(
        "cut out".into(),
        mask([1, 1, 6, 13]).slice([0..1, 0..1, 1..5, 3..11]),
        SCORES,
    ));
    cases
}

fn before(case: Option<&Case>, scale: f32, value: f32) -> ScaleMask<BoolTensor<Plain>> {
    ScaleMask {
        scale,
        mask: case.map(|case| Mask {
            elements: case.elements.clone(),
            value,
        }),
    }
}

/// The scores on the host.
fn scores(x: &[f64], scale: f32, case: Option<&Case>, value: f32) -> Vec<f64> {
    let is_hidden = |i: usize| case.is_some_and(|case| case.hides[i]);
    let score = |(i, x): (usize, &f64)| match is_hidden(i) {
        true => value.into(),
        false => x * f64::from(scale),
    };
    x.iter().enumerate().map(score).collect()
}

fn on_host(x: &[f64]) -> Vec<f64> {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
    let exp: Vec<_> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|exp| exp / sum).collect()
}

/// Compares the op and its gradient with the host.
fn assert_as_on_host(x: &Float, dim: usize, case: Option<&Case>, scale: f32, value: f32) {
    let name = case.map_or("no mask", |case| case.name.as_str());
    let what = format!("{name}, {:?}, along {dim}, {value}", x.dtype());
    let shape = x.shape();
    let before = || before(case, scale, value);
    let y = softmax::forward::<Plain>(x.clone(), dim, before());
    assert_eq!((y.dtype(), y.shape()), (x.dtype(), shape.clone()), "{what}");
    let scores = scores(&read(x), scale, case, value);
    let expected = along(&scores, shape.as_slice(), dim, on_host);
    // Scores of up to 4 in magnitude are rounded once more by the factor.
    let tolerance = 4.0 * slack(x.dtype(), shape[dim]);
    assert_near(&what, &y, &expected, |i| tolerance * expected[i]);

    let g = noisy(shape.as_slice(), 2, x.dtype());
    let dx = softmax::backward::<Plain>(y.clone(), g.clone(), dim, before());
    assert_eq!((dx.dtype(), dx.shape()), (y.dtype(), y.shape()), "{what}");
    let (y, g) = (read(&y), read(&g));
    let products: Vec<f64> = y.iter().zip(&g).map(|(y, g)| y * g).collect();
    let sums = |values: &[f64]| {
        along(values, shape.as_slice(), dim, |row| {
            vec![row.iter().sum(); row.len()]
        })
    };
    let (sums, weights) = (sums(&products), sums(&y));
    let is_hidden = |i: usize| case.is_some_and(|case| case.hides[i]);
    let expected: Vec<f64> = (0..y.len())
        .map(|i| match is_hidden(i) {
            true => 0.0,
            false => f64::from(scale) * y[i] * (g[i] - sums[i] / weights[i]),
        })
        .collect();
    // |g| is at most 4, and so is the sum of |g y| where y is a softmax.
    assert_near(&what, &dx, &expected, |i| 8.0 * tolerance * y[i].abs());
}

#[test]
fn masks_of_any_shape_and_layout_hide_what_they_say() {
    for dtype in dtypes() {
        let x = noisy(&SCORES, 1, dtype);
        for case in cases() {
            assert_as_on_host(&x, 3, Some(&case), SCALE, -1e4);
            assert_as_on_host(&x, 3, Some(&case), 1.0, -1e4);
        }
    }
}

#[test]
fn a_mask_goes_with_its_dimension() {
    for dtype in dtypes() {
        let x = noisy(&SCORES, 1, dtype);
        for case in cases() {
            for dim in 0..3 {
                assert_as_on_host(&x, dim, Some(&case), SCALE, -1e4);
            }
        }
    }
}

#[test]
fn a_factor_needs_no_mask() {
    for dtype in dtypes() {
        for shape in [&[3, 5][..], &[64], &[2, 3, 300], &[2, 20_000]] {
            let x = noisy(shape, 1, dtype);
            assert_as_on_host(&x, shape.len() - 1, None, SCALE, 0.0);
        }
    }
}

/// Rows that are longer than what a unit keeps in registers, and masks whose rows do not fill a vector.
#[test]
fn rows_may_be_long_or_odd() {
    for dtype in dtypes() {
        for n in [1, 7, 33, 5000, 20_000] {
            let shape = [1, 2, 3, n];
            let x = noisy(&shape, 1, dtype);
            let case = case(format!("{n} keys"), mask([1, 1, 3, n]), shape);
            assert_as_on_host(&x, 3, Some(&case), SCALE, -1e4);
        }
    }
}

/// As in Burn: -inf everywhere gives NaN, whose gradient is 0 where the mask is; a finite value everywhere gives equal
/// weights.
#[test]
fn hidden_rows_are_as_in_burn() {
    for dtype in dtypes() {
        let x = noisy(&[1, 1, 2, 8], 1, dtype);
        let hides: Vec<bool> = (0..16).map(|i| i < 8).collect();
        let data = TensorData::new(hides, [1, 1, 2, 8]);
        let mask = Tensor::<Plain, 4, Bool>::from_data(data, &Default::default());
        let case = case("a hidden row".into(), mask, [1, 1, 2, 8]);
        assert_as_on_host(&x, 3, Some(&case), SCALE, -1e4);

        let before = || before(Some(&case), SCALE, f32::NEG_INFINITY);
        let y = softmax::forward::<Plain>(x.clone(), 3, before());
        let values = read(&y);
        assert!(values[..8].iter().all(|y| y.is_nan()), "{values:?}");
        assert!(values[8..].iter().all(|y| y.is_finite()), "{values:?}");
        let g = noisy(&[1, 1, 2, 8], 2, dtype);
        let dx = read(&softmax::backward::<Plain>(y, g, 3, before()));
        assert_eq!(dx[..8], [0.0; 8], "{dtype:?}");
        assert!(dx[8..].iter().all(|dx| dx.is_finite()), "{dx:?}");
    }
}

/// The factor acts in F32: in the dtype of the operand 0.3 would be 0.2998 or 0.3008.
#[test]
fn a_factor_is_not_rounded() {
    for dtype in dtypes().into_iter().filter(|dtype| *dtype != DType::F64) {
        let x = noisy(&[4, 64], 3, dtype);
        assert_as_on_host(&x, 1, None, 0.3, 0.0);
    }
}
