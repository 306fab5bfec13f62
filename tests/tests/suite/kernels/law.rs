//! The law for kernels that compute line by line: what a kernel makes of each line is what the host makes of it in F64, in
//! every dtype, for short and long lines, along every dimension, wherever the operands lie in memory.

use burn_amp_tests::prelude::*;

use super::rows::{
    self, Float, before_nan, layouts, noisy, read, right_halves, special_rows, tensor,
};

/// A backend with the tensors of the plain one: itself, or its references.
pub trait Device:
    AmpBackend
    + Backend<
        FloatTensorPrimitive = Float,
        IntTensorPrimitive = IntTensor<Plain>,
        BoolTensorPrimitive = BoolTensor<Plain>,
    >
{
}

impl Device for Plain {}
#[cfg(not(burn_0_22))]
impl Device for References {}

/// One line of the operands.
pub struct Line<'a> {
    /// The elements of each operand.
    pub of: &'a [Vec<f64>],
    /// The number of the line.
    pub row: usize,
    /// The places of the elements in their tensors.
    pub places: &'a [usize],
}

/// The numbers of a result along a line, each with the error that is allowed besides its rounding.
pub type Near = Vec<(f64, f64)>;

/// Instead of an allowed error: not even a rounding.
pub const EXACT: f64 = f64::NEG_INFINITY;

/// Computes the results of a line: one number per element, or one per line.
pub type Host<'a> = Box<dyn Fn(&Line) -> Vec<Near> + 'a>;

/// A kernel whose operands have one shape, and whose results come line by line.
pub trait OnLines {
    const OPERANDS: usize = 1;

    /// How many results, the last ones, are sums over all lines.
    const COLUMNS: usize = 0;

    const SHAPES: &[&[usize]] = &rows::SHAPES;

    /// Whether lines lie along any dimension, or along the last one only.
    const ALONG_ALL: bool = true;

    /// Whether operands without elements are tried.
    const TAKES_NOTHING: bool = true;

    /// The dtypes of the first operand.
    fn all() -> Vec<DType> {
        rows::dtypes()
    }

    fn run<B: Device>(&self, operands: &[Float], dim: usize) -> Vec<Float>;

    /// The dtypes of the results.
    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        vec![operands[0]]
    }

    /// Makes of noise what programs give to the kernel.
    fn prepared(&self, noise: Vec<Float>) -> Vec<Float> {
        noise
    }

    fn host(&self, operands: &[Float], dim: usize) -> Host<'_>;
}

/// Asserts that a kernel is as the host computes.
pub fn holds<O: OnLines>(op: &O) {
    for dtype in O::all() {
        sizes_hold::<Plain, _>(op, dtype);
        places_hold(op, dtype);
        for other in rows::dtypes() {
            let operand = |seed| noisy(&[3, 40], seed, if seed == 1 { dtype } else { other });
            assert_lines(op, "another dtype", &operands(op, operand), 1);
        }
        for shape in [&[0, 5][..], &[3, 0, 5]]
            .iter()
            .filter(|_| O::TAKES_NOTHING)
        {
            let empty = operands(op, |_| tensor(&[], shape, dtype));
            assert_lines(op, "nothing", &empty, shape.len() - 1);
        }
    }
}

fn operands<O: OnLines>(_: &O, operand: impl Fn(u32) -> Float) -> Vec<Float> {
    (1..=O::OPERANDS as u32).map(operand).collect()
}

pub fn sizes_hold<B: Device, O: OnLines>(op: &O, dtype: DType) {
    for shape in O::SHAPES {
        let noise = operands(op, |seed| noisy(shape, seed, dtype));
        assert_lines_on::<B, _>(op, "sizes", &op.prepared(noise), shape.len() - 1);
    }
}

/// Operands that are apart in memory, in any order there, cut out of others or expanded.
pub fn places_hold<O: OnLines>(op: &O, dtype: DType) {
    let halves = operands(op, |seed| right_halves(seed, dtype));
    assert_lines(op, "halves", &halves, 1);
    let before_nan = operands(op, |seed| before_nan(seed, dtype));
    assert_lines(op, "before NaN", &before_nan, 1);
    let first_half = |seed| match seed {
        1 => right_halves(seed, dtype),
        _ => noisy(&[6, 128], seed, dtype),
    };
    assert_lines(op, "one half", &operands(op, first_half), 1);
    let firsts = layouts(3, dtype);
    for (i, first) in firsts.iter().enumerate() {
        let seconds = layouts(4, dtype);
        let seconds = if O::OPERANDS > 1 {
            &seconds[..]
        } else {
            &seconds[i..=i]
        };
        for (j, second) in seconds.iter().enumerate() {
            let operands = operands(op, |seed| if seed == 1 { first } else { second }.clone());
            assert_lines(op, &format!("layouts {i}, {j}"), &operands, 2);
            if O::ALONG_ALL && (seconds.len() == 1 || i == j) {
                assert_lines(op, &format!("layouts {i}, {j}"), &operands, 0);
                assert_lines(op, &format!("layouts {i}, {j}"), &operands, 1);
            }
        }
    }
}

/// Asserts that rows with NaN and inf are as the host computes, and the first result as the reference does.
pub fn special_rows_hold(op: &impl OnLines) {
    for dtype in rows::dtypes() {
        for n in [1, 2, 5, 64, 300, 5000] {
            let rows = special_rows(dtype, n);
            let x = [tensor(&rows.concat(), &[rows.len(), n], dtype)];
            let expected = assert_lines(op, "special", &x, 1);
            let (found, reference) = (op.run::<Plain>(&x, 1), op.run::<References>(&x, 1));
            let tolerance = |i: usize| expected[0][i].1;
            rows::assert_near("reference", &found[0], &read(&reference[0]), tolerance);
        }
    }
}

/// Asserts that a call is as the host computes, and returns what was expected.
pub fn assert_lines<O: OnLines>(op: &O, what: &str, operands: &[Float], dim: usize) -> Vec<Near> {
    assert_lines_on::<Plain, O>(op, what, operands, dim)
}

pub fn assert_lines_on<B: Device, O: OnLines>(
    op: &O,
    what: &str,
    operands: &[Float],
    dim: usize,
) -> Vec<Near> {
    let shape = operands[0].shape();
    let (n, count) = (shape[dim], shape.num_elements());
    let stride: usize = shape.as_slice()[dim + 1..].iter().product();
    let values: Vec<_> = operands.iter().map(read).collect();
    let operand_dtypes: Vec<_> = operands.iter().map(TensorMetadata::dtype).collect();
    let what = format!(
        "{}, {what}, {operand_dtypes:?} {shape:?} along {dim}",
        std::any::type_name::<O>()
    );
    let found = op.run::<B>(operands, dim);
    let dtypes: Vec<_> = found.iter().map(TensorMetadata::dtype).collect();
    assert_eq!(dtypes, op.dtypes(&operand_dtypes), "{what}");
    let lines = count.checked_div(n).unwrap_or(0);
    let mut expected = vec![Vec::new(); found.len()];
    let first_column = found.len() - O::COLUMNS;
    let host = op.host(operands, dim);
    for row in 0..lines {
        let place = |i| (row / stride * n + i) * stride + row % stride;
        let places: Vec<usize> = (0..n).map(place).collect();
        let of: Vec<Vec<f64>> = values
            .iter()
            .map(|values| places.iter().map(|at| values[*at]).collect())
            .collect();
        let results = host(&Line {
            of: &of,
            row,
            places: &places,
        });
        assert_eq!(results.len(), found.len(), "{what}");
        for (k, result) in results.into_iter().enumerate() {
            let per_line = if k < first_column { lines } else { 1 };
            expected[k].resize(result.len() * per_line, (0.0, 0.0));
            let is_whole = result.len() == n;
            for (i, near) in result.into_iter().enumerate() {
                if k >= first_column {
                    expected[k][i].0 += near.0;
                    expected[k][i].1 += near.1;
                } else {
                    expected[k][if is_whole { places[i] } else { row }] = near;
                }
            }
        }
    }
    for (k, (found, expected)) in found.iter().zip(&mut expected).enumerate() {
        let mut of_lines = shape.clone();
        of_lines[dim] = 1;
        let found_shape = found.shape();
        if k >= first_column {
            expected.resize(n, (0.0, 0.0));
            assert_eq!(found_shape.as_slice(), [n], "{what}");
        } else {
            assert!(
                found_shape == shape || found_shape == of_lines,
                "{what}: {found_shape:?}"
            );
        }
        let values: Vec<_> = expected.iter().map(|near| near.0).collect();
        rows::assert_near(&format!("{what}, result {k}"), found, &values, |i| {
            expected[i].1
        });
    }
    expected
}
