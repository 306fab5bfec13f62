//! Max pooling: the results and the gradients of Burn's ops, in every dtype.

use burn_amp_kernels::max_pool::{self, Window};
use burn_backend::ops::ModuleOps;

use super::prelude::*;

type Op = fn(FloatTensor<PlainAutodiff>) -> FloatTensor<PlainAutodiff>;

/// Returns the result of an op, and the gradient of its operand, which weighs each result differently.
fn both(op: Op, shape: &[usize], dtype: DType) -> [Vec<f64>; 2] {
    let leaf = PlainAutodiff::float_from_data(
        read_sync(Plain::float_into_data(noisy(shape, 7, dtype))).unwrap(),
        &here(),
    );
    let leaf = PlainAutodiff::float_set_require_grad(leaf, true);
    let output = op(leaf.clone());
    let weights = PlainAutodiff::from_inner(noisy(&output.shape().to_vec(), 8, dtype));
    let grads = PlainAutodiff::backward(PlainAutodiff::float_mul(output.clone(), weights));
    let gradient = PlainAutodiff::grad(&leaf, &grads).unwrap();
    assert_eq!(gradient.dtype(), dtype);
    [read(&output.primitive), read(&gradient)]
}

#[track_caller]
fn assert_same(ours: Op, burns: Op, shape: &[usize]) {
    for dtype in dtypes() {
        assert_eq!(
            both(ours, shape, dtype),
            both(burns, shape, dtype),
            "{shape:?} in {dtype:?}"
        );
    }
}

#[test]
fn results_and_gradients_are_burns() {
    let small: [(Op, Op); 2] = [
        (
            |x| {
                max_pool::max_pool2d::<PlainAutodiff>(
                    x,
                    Window {
                        kernel_size: [2, 2],
                        stride: [2, 2],
                        padding: [0, 0],
                        dilation: [1, 1],
                        ceil_mode: false,
                    },
                )
            },
            |x| PlainAutodiff::max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], false),
        ),
        (
            |x| {
                max_pool::max_pool2d::<PlainAutodiff>(
                    x,
                    Window {
                        kernel_size: [3, 2],
                        stride: [2, 1],
                        padding: [1, 0],
                        dilation: [1, 2],
                        ceil_mode: false,
                    },
                )
            },
            |x| PlainAutodiff::max_pool2d(x, [3, 2], [2, 1], [1, 0], [1, 2], false),
        ),
    ];
    for (ours, burns) in small {
        assert_same(ours, burns, &[2, 3, 8, 6]);
        assert_same(ours, burns, &[1, 1, 5, 7]);
    }
    assert_same(
        |x| {
            max_pool::max_pool1d::<PlainAutodiff>(
                x,
                Window {
                    kernel_size: [3],
                    stride: [2],
                    padding: [1],
                    dilation: [1],
                    ceil_mode: false,
                },
            )
        },
        |x| PlainAutodiff::max_pool1d(x, 3, 2, 1, 1, false),
        &[2, 3, 9],
    );
}
