//! Rows for the tests of row-wise ops, and comparisons with what the host computes in F64.

use burn_amp_tests::prelude::*;

pub type Float = FloatTensor<Plain>;

/// The dtypes to test in. F64 is left out on CubeCL: only the references compute in it, and SPIR-V has no exponential
/// for it.
pub fn dtypes() -> Vec<DType> {
    let mut dtypes = super::dtypes();
    dtypes.retain(|dtype| *dtype != DType::F64 || cfg!(not(feature = "cubecl")));
    dtypes
}

/// Shapes whose rows are shorter and longer than a vector, than a plane, than what a unit holds and than what a team
/// holds; and shapes with thousands of rows, with 2^20 elements, and with more rows than a grid has cubes in one
/// dimension.
pub const SHAPES: [&[usize]; 19] = [
    &[1],
    &[2],
    &[5, 3],
    &[2, 3, 7],
    &[1, 31],
    &[9, 32],
    &[2, 2, 3, 33],
    &[3, 64],
    &[17, 127],
    &[2, 2, 1, 768],
    &[5, 1000],
    &[2, 3, 1024],
    &[3, 4097],
    &[2, 8192],
    &[1, 20_000],
    &[2, 32_769],
    &[1024, 1024],
    &[70_000, 1],
    &[66_000, 2],
];

/// Reproducible values in [-4, 4).
pub fn noise(elements: usize, seed: u32) -> Vec<f64> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24) * 8.0 - 4.0
    };
    (0..elements).map(|_| next()).collect()
}

/// Rows with elements that are not finite, subnormal or as large as possible, and rows that are masked by -inf.
pub fn special_rows(dtype: DType, n: usize) -> Vec<Vec<f64>> {
    let finfo = dtype.finfo().unwrap();
    let (inf, nan, subnormal) = (f64::INFINITY, f64::NAN, finfo.min_positive / 2.0);
    let filled = |with: f64| vec![with; n];
    let mut rows = vec![
        filled(-inf),
        filled(inf),
        filled(nan),
        filled(finfo.max),
        filled(-finfo.max),
        filled(subnormal),
    ];
    for special in [-inf, inf, nan, finfo.max, -finfo.max, subnormal] {
        for at in [0, n / 2, n - 1] {
            let mut row = noise(n, 5);
            row[at] = special;
            rows.push(row);
            // All elements but one are masked.
            let mut row = filled(-inf);
            row[at] = special;
            rows.push(row);
        }
    }
    // The first half is masked.
    let mut row = noise(n, 6);
    row[..n / 2].fill(-inf);
    rows.push(row);
    rows
}

/// A contiguous tensor of `values`, rounded to `dtype`.
///
/// On CUDA, writing and reading a tensor without elements fails in burn-cubecl: a launch without cubes is refused.
pub fn tensor(values: &[f64], shape: &[usize], dtype: DType) -> Float {
    if values.is_empty() {
        return Plain::float_empty(Shape::from(shape), &here(), dtype.into());
    }
    let data = TensorData::new(values.to_vec(), Shape::from(shape)).convert_dtype(dtype);
    Plain::float_from_data(data, &here())
}

/// A tensor of [`noise`].
pub fn noisy(shape: &[usize], seed: u32, dtype: DType) -> Float {
    tensor(&noise(shape.iter().product(), seed), shape, dtype)
}

pub fn read(tensor: &Float) -> Vec<f64> {
    if tensor.shape().num_elements() == 0 {
        return Vec::new();
    }
    let data = read_sync(Plain::float_into_data(tensor.clone())).unwrap();
    data.iter::<f64>().collect()
}

/// Tensors of shape `[3, 4, 6]` in various layouts: contiguous, with swapped dimensions, sliced, and expanded.
pub fn layouts(seed: u32, dtype: DType) -> Vec<Float> {
    let cut = |shape: [usize; 3], from: [usize; 3]| {
        let slices: Vec<_> = from
            .iter()
            .zip([3, 4, 6])
            .map(|(from, size)| Slice::from(*from..from + size))
            .collect();
        Plain::float_slice(noisy(&shape, seed, dtype), &slices)
    };
    let expanded =
        |shape: [usize; 3]| Plain::float_expand(noisy(&shape, seed, dtype), [3, 4, 6].into());
    let swapped =
        |shape: [usize; 3], a, b| Plain::float_swap_dims(noisy(&shape, seed, dtype), a, b);
    vec![
        noisy(&[3, 4, 6], seed, dtype),
        swapped([3, 6, 4], 1, 2),
        swapped([6, 4, 3], 0, 2),
        swapped([4, 3, 6], 0, 1),
        cut([3, 4, 9], [0, 0, 2]),
        cut([3, 6, 6], [0, 1, 0]),
        cut([5, 4, 6], [1, 0, 0]),
        expanded([1, 1, 6]),
        expanded([3, 1, 6]),
        expanded([1, 4, 6]),
        expanded([3, 4, 1]),
    ]
}

/// A tensor of shape `[6, 128]`: the right halves of rows of 256. Slicing it copies nothing on a device, because it
/// starts where memory is aligned.
pub fn right_halves(seed: u32, dtype: DType) -> Float {
    let slices = [Slice::from(0..6), Slice::from(128..256)];
    Plain::float_slice(noisy(&[6, 256], seed, dtype), &slices)
}

/// A tensor of shape `[6, 197]`: rows of 208 without their last elements, which are NaN and lie between its rows.
pub fn before_nan(seed: u32, dtype: DType) -> Float {
    let values = noise(6 * 208, seed).into_iter().enumerate();
    let values = values.map(|(at, x)| if at % 208 < 197 { x } else { f64::NAN });
    let wide = tensor(&values.collect::<Vec<_>>(), &[6, 208], dtype);
    Plain::float_slice(wide, &[Slice::from(0..6), Slice::from(0..197)])
}

/// Applies `op` to each line of values along `dim` and puts the results in the places of the values.
pub fn along(
    values: &[f64],
    shape: &[usize],
    dim: usize,
    op: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let stride: usize = shape[dim + 1..].iter().product();
    let size = shape[dim];
    let mut results = vec![0.0; values.len()];
    for outer in 0..values.len() / (size * stride) {
        for inner in 0..stride {
            let place = |i| (outer * size + i) * stride + inner;
            let line: Vec<_> = (0..size).map(|i| values[place(i)]).collect();
            for (i, result) in op(&line).into_iter().enumerate() {
                results[place(i)] = result;
            }
        }
    }
    results
}

/// The number of elements of a row.
pub fn last(tensor: &Float) -> usize {
    let shape = tensor.shape();
    shape[shape.num_dims() - 1]
}

/// The dtype that kernels compute in for operands of `dtype`.
pub fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The distance from 1 to the next number.
pub fn epsilon(dtype: DType) -> f64 {
    dtype.finfo().unwrap().epsilon
}

/// The allowed error of a sum of `terms` exponentials, relative to the sum of their magnitudes.
///
/// A device may be off by `3 + 2 |x|` units in the last place for the exponential of x (the precision that Vulkan
/// requires); |x| is at most 8 here. Each addition rounds, and the roundings grow like those of a random walk.
pub fn slack(dtype: DType, terms: usize) -> f64 {
    (32.0 + 4.0 * (terms as f64).sqrt()) * epsilon(wide(dtype))
}

/// Asserts that values are NaN where expected, and that others are off by at most a rounding plus `tolerance`.
pub fn assert_near(what: &str, found: &Float, expected: &[f64], tolerance: impl Fn(usize) -> f64) {
    let (shape, dtype) = (found.shape(), found.dtype());
    let finfo = dtype.finfo().unwrap();
    let found = read(found);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        let rounding = finfo.epsilon * expected.abs().max(finfo.min_positive);
        let error = (found - expected).abs();
        let same = found == *expected || found.is_nan() && expected.is_nan();
        assert!(
            same || expected.is_finite() && error <= rounding + tolerance(i),
            "{what}, {dtype:?} {shape:?} at {i}: {found}, expected {expected}"
        );
    }
}

/// The derivatives of `f` by central differences, accurate to about 1e-10 for the functions here.
pub fn derivatives(f: impl Fn(&[f64]) -> f64, at: &[f64]) -> Vec<f64> {
    let step = 1e-5;
    let mut at = at.to_vec();
    (0..at.len())
        .map(|i| {
            let x = at[i];
            at[i] = x + step;
            let right = f(&at);
            at[i] = x - step;
            let left = f(&at);
            at[i] = x;
            (right - left) / (2.0 * step)
        })
        .collect()
}
