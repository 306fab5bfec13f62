//! The flags of lists of tensors, compared with those that the host computes.

use burn_amp_kernels::{
    finite,
    names::{dtype_of, shape_of},
    unscale,
};
use burn_amp_tests::prelude::*;

use super::{dtypes, float, sliced};

type Float = FloatTensor<Plain>;

/// Finite numbers that a faulty check may report: zeros, subnormals, the largest.
fn finite_values(dtype: DType) -> Vec<f64> {
    let finfo = dtype.finfo().unwrap();
    let subnormal = finfo.min_positive / 4.0;
    vec![
        0.0,
        -0.0,
        1.0,
        -1.5,
        finfo.max,
        -finfo.max,
        finfo.min_positive,
        subnormal,
        -subnormal,
    ]
}

/// `elements` finite values, with `other` at index `at`.
fn values(dtype: DType, elements: usize, other: Option<(usize, f64)>) -> Vec<f64> {
    let finite = finite_values(dtype);
    let mut values: Vec<_> = finite.iter().copied().cycle().take(elements).collect();
    if let Some((at, other)) = other {
        values[at] = other;
    }
    values
}

/// The flags that `not_finite`, `unscale` and their references return.
fn flags(tensors: &[Float]) -> [Vec<f32>; 4] {
    let list = || tensors.to_vec();
    [
        finite::not_finite::<Plain>(list()),
        finite::not_finite::<References>(list()),
        unscale::unscale::<Plain>(list(), 0.5).pop().unwrap(),
        unscale::unscale::<References>(list(), 0.5).pop().unwrap(),
    ]
    .map(|flags| {
        let data = read_sync(Plain::float_into_data(flags)).unwrap();
        assert_eq!(
            (dtype_of(&data), shape_of(&data).as_slice()),
            (DType::F32, &[tensors.len()][..])
        );
        data.iter::<f32>().collect()
    })
}

#[test]
fn a_value_that_is_not_finite_is_found_wherever_it_stands() {
    for dtype in dtypes() {
        let mut tensors = Vec::new();
        let mut expected = Vec::new();
        for elements in [1, 2, 7, 8, 63, 64, 65, 1000, 4096, 100_003, 1 << 20] {
            tensors.push(float(&values(dtype, elements, None), [elements], dtype));
            expected.push(0.0);
            for other in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                for at in [0, elements / 3, elements - 1] {
                    let values = values(dtype, elements, Some((at, other)));
                    tensors.push(float(&values, [elements], dtype));
                    expected.push(1.0);
                }
            }
        }
        for found in flags(&tensors) {
            assert_eq!(found, expected, "{dtype:?}");
        }
    }
}

#[test]
fn tensors_of_one_list_may_differ_in_everything() {
    let dtypes = dtypes();
    let mut tensors = Vec::new();
    let mut expected = Vec::new();
    for turn in 0..40 {
        let dtype = dtypes[turn % dtypes.len()];
        let shape = [1 + turn % 5, 1 + turn % 7, 3];
        let elements = shape.iter().product();
        let is_finite = turn % 3 != 0;
        let other = (!is_finite).then_some((turn % elements, f64::NAN));
        tensors.push(float(&values(dtype, elements, other), shape, dtype));
        expected.push(if is_finite { 0.0 } else { 1.0 });
    }
    for found in flags(&tensors) {
        assert_eq!(found, expected);
    }
}

#[test]
fn layouts_and_empty_tensors_are_seen_through() {
    for dtype in dtypes() {
        let bad = || float(&values(dtype, 12, Some((7, f64::NAN))), [3, 4], dtype);
        let expand = |tensor| Plain::float_expand(tensor, [5, 4].into());
        let cases = [
            (Plain::float_transpose(bad()), 1.0),
            (sliced(bad(), [1..2, 3..4]), 1.0),
            (sliced(bad(), [1..3, 0..3]), 0.0),
            (expand(sliced(bad(), [0..1, 0..4])), 0.0),
            (expand(sliced(bad(), [1..2, 0..4])), 1.0),
            (
                Plain::float_empty([0, 4].into(), &here(), dtype.into()),
                0.0,
            ),
        ];
        let (tensors, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
        for found in flags(&tensors) {
            assert_eq!(found, expected, "{dtype:?}");
        }
    }
}
