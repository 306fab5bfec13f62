//! Sums of squares of many tensors, compared with the host in F64.

use burn_amp::config::LossScaling;
use burn_amp_kernels::{
    loss_scale,
    names::dtype_of,
    squares::{self, Squares},
};
use burn_amp_tests::prelude::*;

use super::{dtypes, float, rows, sliced};

/// A state of the loss scale.
fn state(scale: f32, overflowed: bool) -> FloatTensor<Plain> {
    let mut state = loss_scale::state(LossScaling::Static(scale).start());
    state[3] = f32::from(overflowed);
    Plain::float_from_data(TensorData::from(state), &here())
}

/// The sum by the kernel and by the reference.
fn sums(squares: &Squares<Plain>) -> [f64; 2] {
    let Squares { tensors, scaled_by } = squares.clone();
    let sums = [
        squares::sum::<Plain>(squares.clone()),
        squares::sum::<References>(Squares { tensors, scaled_by }),
    ];
    sums.map(|sum| {
        let data = read_sync(Plain::float_into_data(sum)).unwrap();
        assert_eq!((dtype_of(&data), data.num_elements()), (DType::F32, 1));
        data.iter::<f64>().next().unwrap()
    })
}

#[test]
fn the_sum_is_that_of_all_elements_times_their_factors() {
    for dtype in dtypes() {
        let shapes = [[1, 1], [2, 3], [8, 64], [33, 31], [0, 5], [64, 300]];
        let tensors: Vec<_> = (0..40)
            .map(|at| {
                let shape = shapes[at % shapes.len()];
                let values: Vec<_> = (0..shape[0] * shape[1])
                    .map(|i| ((i * 37 + at * 11) % 101) as f64 / 64.0 - 0.75)
                    .collect();
                let tensor = float(&values, shape, dtype);
                (tensor, 0.25 * (1 + at % 3) as f32)
            })
            .collect();
        let host: f64 = tensors
            .iter()
            .flat_map(|(tensor, factor)| {
                rows::read(tensor)
                    .into_iter()
                    .map(|value| (value * f64::from(*factor)).powi(2))
            })
            .sum();
        for (scale, overflowed) in [(None, false), (Some(8.0), false), (Some(8.0), true)] {
            let squares = Squares {
                tensors: tensors.clone(),
                scaled_by: scale.map(|scale| [state(scale, false), state(scale, overflowed)]),
            };
            let expected = match (scale, overflowed) {
                (_, true) => 0.0,
                (Some(scale), false) => host / f64::from(scale).powi(2),
                (None, false) => host,
            };
            for sum in sums(&squares) {
                // Tens of thousands of numbers, of which a unit or an op adds at most some hundreds one after the other.
                let error = (sum - expected).abs();
                assert!(
                    error <= 1e-4 * expected,
                    "{dtype:?}: {sum} and not {expected}"
                );
            }
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_shows() {
    for bad in [f64::INFINITY, f64::NAN] {
        let tensors = vec![
            (float(&[1.0, 2.0], [2], DType::F32), 1.0),
            (float(&[0.5, bad, 1.0], [3], DType::F32), 1.0),
        ];
        let squares = Squares {
            tensors,
            scaled_by: None,
        };
        assert!(sums(&squares).iter().all(|sum| !sum.is_finite()), "{bad}");
    }
}

#[test]
fn layouts_do_not_matter() {
    let values: Vec<_> = (0..24).map(f64::from).collect();
    let source = || float(&values, [4, 6], DType::F32);
    for tensor in [
        Plain::float_transpose(source()),
        sliced(source(), [1..3, 2..5]),
        Plain::float_expand(sliced(source(), [2..3, 0..6]), [3, 6].into()),
    ] {
        let expected: f64 = rows::read(&tensor).iter().map(|value| value * value).sum();
        let squares = Squares {
            tensors: vec![(tensor, 1.0)],
            scaled_by: None,
        };
        assert_eq!(sums(&squares), [expected; 2]);
    }
}
