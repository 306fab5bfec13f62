//! Products with weights: the gradient of the weights is F32, and compared with the host.

use burn_amp_kernels::weight_product::{self, InGraph};

use super::prelude::*;

/// `lhs rhs` on the host, and the sums of the magnitudes of the terms.
fn on_host(lhs: &[f64], rhs: &[f64], [m, k, n]: [usize; 3]) -> (Vec<f64>, Vec<f64>) {
    let sum = |i: usize, j: usize, of: fn(f64) -> f64| -> f64 {
        (0..k).map(|l| of(lhs[i * k + l] * rhs[l * n + j])).sum()
    };
    let elements = || (0..m * n).map(|at| (at / n, at % n));
    (
        elements().map(|(i, j)| sum(i, j, |x| x)).collect(),
        elements().map(|(i, j)| sum(i, j, f64::abs)).collect(),
    )
}

fn assert_product(what: &str, product: &Float, lhs: &Float, rhs: &Float) {
    let (lhs_shape, rhs_shape) = (lhs.shape(), rhs.shape());
    let sizes = [lhs_shape[0], lhs_shape[1], rhs_shape[1]];
    let (expected, magnitudes) = on_host(&read(lhs), &read(rhs), sizes);
    // The kernels add in F32 and round nothing else; a reference rounds the product to the dtype of the operands. A
    // matrix unit may round F32 operands to the 11 bits of TF32, each by half of the last one's value.
    let added = sizes[1] as f64 * f64::from(f32::EPSILON);
    let rounded = match lhs.dtype() {
        DType::F32 if cfg!(feature = "cubecl") => 2f64.powi(-10),
        DType::F16 | DType::BF16 if cfg!(feature = "cubecl") => 0.0,
        dtype => epsilon(dtype),
    };
    let tolerance = |i: usize| (added + rounded) * magnitudes[i];
    assert_near(what, product, &expected, tolerance);
}

#[test]
fn a_wide_product_is_added_and_written_in_f32() {
    for dtype in dtypes() {
        for [m, k, n] in [
            [1, 1, 1],
            [5, 33, 7],
            [64, 64, 64],
            [16, 300, 24],
            [3, 1025, 2],
        ] {
            let what = format!("{m} × {k} × {n} in {dtype:?}");
            let (lhs, rhs) = (noisy(&[m, k], 1, dtype), noisy(&[k, n], 2, dtype));
            let product = weight_product::wide_matmul::<Plain>(lhs.clone(), rhs.clone());
            let wide = wide(dtype);
            assert_eq!(
                (product.dtype(), product.shape().as_slice()),
                (wide, &[m, n][..])
            );
            assert_product(&what, &product, &lhs, &rhs);

            // As a gradient is computed: of a transposed operand.
            let x = noisy(&[k, m], 3, dtype);
            let transposed = Plain::float_transpose(x);
            let product = weight_product::wide_matmul::<Plain>(transposed.clone(), rhs.clone());
            assert_product(&format!("transposed, {what}"), &product, &transposed, &rhs);
        }
    }
}

#[test]
fn the_gradients_of_weights_and_bias_are_f32_and_that_of_the_input_is_not() {
    for dtype in dtypes() {
        let [x, weight] = [noise(40, 4), noise(35, 5)];
        let [x, weight] = [(x, [8, 5]), (weight, [5, 7])].map(|(values, shape)| {
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            let tensor = PlainAutodiff::float_from_data(data, &here());
            PlainAutodiff::float_set_require_grad(tensor, true)
        });
        let wide = wide(dtype);
        let bias = TensorData::new(noise(7, 6), [7]).convert_dtype(wide);
        let bias = PlainAutodiff::float_from_data(bias, &here());
        let bias = PlainAutodiff::float_set_require_grad(bias, true);
        let y = weight_product::forward::<PlainAutodiff>(
            x.clone(),
            weight.clone(),
            Some(bias.clone()),
            InGraph::default(),
        );
        assert_eq!(y.primitive.dtype(), dtype);
        let grads = PlainAutodiff::backward(PlainAutodiff::float_sum(y));
        let of = |tensor: &FloatTensor<PlainAutodiff>| PlainAutodiff::grad(tensor, &grads).unwrap();
        let ones = |shape: [usize; 2]| Plain::float_ones(shape.into(), &here(), dtype.into());
        assert_eq!((of(&x).dtype(), of(&weight).dtype()), (dtype, wide));
        assert_eq!(of(&bias).dtype(), wide);
        assert_near("bias", &of(&bias), &[8.0; 7], |_| 0.0);
        let transposed = Plain::float_transpose(x.primitive.clone());
        assert_product("weights", &of(&weight), &transposed, &ones([8, 7]));
    }
}

#[test]
fn the_bias_is_added_in_f32() {
    for dtype in dtypes() {
        for [m, k, n] in [[1, 1, 1], [5, 33, 7], [16, 300, 24]] {
            let what = format!("{m} × {k} × {n} in {dtype:?}");
            let (x, weight) = (noisy(&[m, k], 1, dtype), noisy(&[k, n], 2, dtype));
            let bias = noisy(&[n], 3, wide(dtype));
            let product = weight_product::forward::<Plain>(
                x.clone(),
                weight.clone(),
                None,
                InGraph::default(),
            );
            let sum =
                weight_product::forward::<Plain>(x, weight, Some(bias.clone()), InGraph::default());
            assert_eq!(sum.dtype(), dtype, "{what}");
            let bias = read(&bias);
            let expected: Vec<_> = read(&product)
                .into_iter()
                .enumerate()
                .map(|(i, product)| product + bias[i % n])
                .collect();
            assert_near(&what, &sum, &expected, |i| {
                epsilon(dtype) * expected[i].abs()
            });
        }
    }
}

#[test]
fn columns_are_added_in_f32() {
    for dtype in dtypes() {
        for [rows, columns] in [
            [1, 1],
            [3, 5],
            [257, 33],
            [1030, 40],
            [5000, 8],
            [20_000, 8],
            [64, 4096],
        ] {
            let x = noisy(&[rows, columns], 1, dtype);
            let sums = weight_product::column_sums::<Plain>(x.clone());
            assert_eq!(sums.shape().as_slice(), [columns]);
            let (mut expected, mut magnitudes) = (vec![0.0; columns], vec![0.0; columns]);
            for (at, value) in read(&x).into_iter().enumerate() {
                expected[at % columns] += value;
                magnitudes[at % columns] += value.abs();
            }
            let added = rows as f64 * f64::from(f32::EPSILON);
            let what = format!("{rows} × {columns} in {dtype:?}");
            assert_near(&what, &sums, &expected, |i| added * magnitudes[i]);
        }
    }
}
