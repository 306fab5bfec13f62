//! The product of matrices in a graph: the results and the gradients of Burn's op, bit for bit.

use burn_amp_kernels::product;

use super::prelude::*;

type Op = fn(FloatTensor<PlainAutodiff>, FloatTensor<PlainAutodiff>) -> FloatTensor<PlainAutodiff>;

/// Returns the result and the gradients of the tracked operands.
fn all(op: Op, shapes: [&[usize]; 2], tracked: [bool; 2], dtype: DType) -> Vec<Option<Vec<f64>>> {
    let [lhs, rhs] = [0, 1].map(|at| {
        let leaf = PlainAutodiff::from_inner(noisy(shapes[at], at as u32, dtype));
        PlainAutodiff::float_set_require_grad(leaf, tracked[at])
    });
    let output = op(lhs.clone(), rhs.clone());
    let values = read(&output.primitive);
    let weights = PlainAutodiff::from_inner(noisy(&output.shape().to_vec(), 8, dtype));
    let grads = PlainAutodiff::backward(PlainAutodiff::float_mul(output, weights));
    let gradients = [lhs, rhs].map(|leaf| PlainAutodiff::grad(&leaf, &grads).map(|it| read(&it)));
    [Some(values)].into_iter().chain(gradients).collect()
}

#[test]
fn results_and_gradients_are_burns() {
    let shapes: [[&[usize]; 2]; 4] = [
        [&[3, 5], &[5, 2]],
        [&[2, 3, 5], &[2, 5, 4]],
        [&[2, 3, 5], &[1, 5, 4]],
        [&[1, 2, 3, 5], &[4, 1, 5, 2]],
    ];
    for dtype in dtypes() {
        for shapes in shapes {
            for tracked in [[true, true], [true, false], [false, true]] {
                assert_eq!(
                    all(
                        product::of_matrices::<PlainAutodiff>,
                        shapes,
                        tracked,
                        dtype
                    ),
                    all(PlainAutodiff::float_matmul, shapes, tracked, dtype),
                    "{shapes:?} {tracked:?} in {dtype:?}"
                );
            }
        }
    }
}
