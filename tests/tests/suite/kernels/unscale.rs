//! Unscaled tensors, compared bit for bit with products on the host.

use burn::tensor::{DType, Tensor, TensorPrimitive, ops::FloatTensorOps};
use burn_amp_kernels::unscale;
use burn_amp_tests::{Plain, References};
use burn_backend::read_sync;

use super::{dtypes, float};

const FACTORS: [f32; 3] = [1.0, 1.0 / 65536.0, 0.3];

#[test]
fn every_element_is_the_product_in_f32() {
    for dtype in dtypes() {
        for factor in FACTORS {
            let shapes = [[1, 1], [2, 3], [8, 64], [33, 31], [64, 4096]];
            let tensors: Vec<_> = shapes
                .into_iter()
                .map(|shape| {
                    let values: Vec<_> = (0..shape[0] * shape[1])
                        .map(|at| (at as f64 - 40.0) * 0.37)
                        .collect();
                    float(&values, shape, dtype)
                })
                .collect();
            for unscaled in [
                unscale::unscale::<Plain>(tensors.clone(), factor),
                unscale::unscale::<References>(tensors.clone(), factor),
            ] {
                assert_eq!(unscaled.len(), tensors.len() + 1);
                for (before, after) in tensors.iter().zip(unscaled) {
                    let before = read_sync(Plain::float_into_data(before.clone())).unwrap();
                    let after = read_sync(Plain::float_into_data(after)).unwrap();
                    let wide = if dtype == DType::F64 {
                        dtype
                    } else {
                        DType::F32
                    };
                    assert_eq!((after.dtype, &after.shape), (wide, &before.shape));
                    for (before, after) in before.iter::<f64>().zip(after.iter::<f64>()) {
                        let expected = match dtype {
                            DType::F64 => before * f64::from(factor),
                            _ => f64::from(before as f32 * factor),
                        };
                        assert_eq!(after, expected, "{before} × {factor} from {dtype:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_tensor_keeps_its_places_whatever_its_layout() {
    for dtype in dtypes() {
        let values: Vec<_> = (0..24).map(f64::from).collect();
        let tensor = || {
            let float = float(&values, [4, 6], dtype);
            Tensor::<Plain, 2>::from_primitive(TensorPrimitive::Float(float))
        };
        let cases = [
            tensor().transpose(),
            tensor().slice([1..3, 2..5]),
            tensor().slice([1..3, 2..5]).transpose(),
            tensor().slice([2..3, 0..6]).expand([3, 6]),
            Tensor::empty([0, 6], (&Default::default(), dtype)),
        ];
        let list = cases
            .iter()
            .map(|case| case.clone().into_primitive().tensor());
        let unscaled = unscale::unscale::<Plain>(list.collect(), 2.0);
        for (case, unscaled) in cases.into_iter().zip(unscaled) {
            let unscaled = Tensor::<Plain, 2>::from_primitive(TensorPrimitive::Float(unscaled));
            assert_eq!(unscaled.dims(), case.dims());
            let expected: Vec<f64> = case
                .into_data()
                .iter()
                .map(|value: f64| 2.0 * value)
                .collect();
            let found: Vec<f64> = unscaled.into_data().iter().collect();
            assert_eq!(found, expected, "{dtype:?}");
        }
    }
}
