//! The gradient of an embedding: sums of the rows that have the same index, and the node.

use burn_amp_kernels::embedding;
use burn_backend::ops::{IntTensorOps, ModuleOps};

use super::prelude::*;

/// Indices in `0..rows`, of which the first rows are met more often, and some rows never.
fn indices(rows: usize, n: usize) -> Vec<usize> {
    (0..n)
        .map(|at| at * at * 31 % (rows * 2 / 3 + 1) / (1 + at % 3))
        .collect()
}

fn of(indices: &[usize]) -> IntTensor<Plain> {
    let indices: Vec<i64> = indices.iter().map(|at| *at as i64).collect();
    let length = indices.len();
    let dtype = get_device_settings::<Plain>(&here()).int_dtype;
    let data = TensorData::new(indices, [length]).convert_dtype(dtype.into());
    Plain::int_from_data(data, &here())
}

/// Cubes of a row and of many, one slice of indices and many, cubes with units for no column.
#[test]
fn rows_of_the_same_index_are_added_in_f32() {
    for dtype in dtypes() {
        for [rows, columns, n] in [
            [1, 1, 1],
            [1, 8, 300],
            [2, 264, 700],
            [7, 33, 65],
            [200, 24, 1500],
            [3000, 5, 40],
            [2100, 64, 500],
            [66_000, 3, 300],
        ] {
            let what = format!("{n} of {rows} rows of {columns} in {dtype:?}");
            let grad = noisy(&[n, columns], 1, dtype);
            let at = indices(rows, n);
            let sums = embedding::backward::<Plain>(grad.clone(), of(&at), rows);
            assert_eq!(
                (sums.dtype(), sums.shape().as_slice()),
                (wide(dtype), &[rows, columns][..])
            );
            let values = read(&grad);
            let (mut expected, mut magnitudes) =
                (vec![0.0; rows * columns], vec![0.0; rows * columns]);
            for (row, values) in at.iter().zip(values.chunks(columns)) {
                for (column, value) in values.iter().enumerate() {
                    expected[row * columns + column] += value;
                    magnitudes[row * columns + column] += value.abs();
                }
            }
            // Each of at most `n` additions rounds once.
            let slack = n as f64 * epsilon(wide(dtype));
            assert_near(&what, &sums, &expected, |at| slack * magnitudes[at]);
        }
    }
}

#[test]
fn the_gradient_of_a_table_has_its_dtype() {
    for dtype in dtypes() {
        let table = TensorData::new(noise(60, 2), [12, 5]).convert_dtype(dtype);
        let table = PlainAutodiff::float_from_data(table, &here());
        let table = PlainAutodiff::float_set_require_grad(table, true);
        let at = Plain::int_reshape(of(&indices(12, 14)), Shape::new([2, 7]));
        let [ours, burns] = [
            embedding::forward::<PlainAutodiff>(table.clone(), at.clone()),
            PlainAutodiff::embedding(table.clone(), at),
        ];
        assert_eq!(read(&ours.primitive), read(&burns.primitive));
        let gradient = |output: FloatTensor<PlainAutodiff>| {
            let mut grads = PlainAutodiff::backward(PlainAutodiff::float_sum(output));
            PlainAutodiff::grad_remove(&table, &mut grads).expect("it is tracked")
        };
        // Sums of ones are exact.
        let [ours, burns] = [ours, burns].map(gradient);
        assert_eq!(ours.dtype(), dtype);
        assert_eq!(read(&ours), read(&burns));
    }
}
