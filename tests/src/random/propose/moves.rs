//! Ops that move values.

use burn_backend::FloatDType;

use super::{Growing, M, Op, scalar};

/// Proposes an op that moves values of `x`.
pub(super) fn movement(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let shape = growing.shapes[x].clone();
    let dtype = growing.dtypes[x];
    let everywhere = growing.limits.everywhere;
    let rng = &mut growing.rng;
    let rank = shape.len();
    let dim = rng.below(rank);
    let size = shape[dim];
    let (seed, start) = (rng.bits(), rng.below(size + 1));
    let op = match rng.below(40) {
        0..4 => M::Transpose {},
        4..6 => M::SwapDims {
            a: dim,
            b: rng.below(rank),
        },
        6..8 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.rotate_left(rng.below(rank));
            M::Permute { axes }
        }
        8 => M::Flip { dim },
        9..12 => M::Merge { dim },
        12..15 => M::Split {
            dim,
            size: rng.pick(&[1, 2, 3, 4, 6, 8]),
        },
        15 => M::Flatten {},
        16 | 17 => M::Unsqueeze { dim },
        18 => M::Squeeze { dim },
        19 => M::Repeat {
            dim,
            times: 1 + rng.below(3),
        },
        20 | 21 => M::Expand {
            dim,
            size: rng.pick(&[2, 8, 16, 32, 33, 36]),
        },
        22 => M::InTurns {
            dim,
            width: rng.pick(&[1, 1, 2]),
            reversed: rng.below(2) == 0,
        },
        23 | 24 => M::Slice {
            dim,
            start,
            end: start + rng.below(size - start + 1),
            step: rng.pick(&[1, 1, 1, 2, 3]),
        },
        25 => M::IntoZeros {
            dim,
            size: size + 2,
        },
        26 => M::Select {
            dim,
            len: rng.pick(&[1, 3, size]),
            seed,
        },
        27 => M::Gather {
            dim,
            len: rng.pick(&[1, 3, size]),
            seed,
        },
        28 => M::Unfold {
            dim,
            size: rng.pick(&[1, 2, 3]),
            step: rng.pick(&[1, 2]),
        },
        29 => M::Detach {},
        30 => M::Cut {},
        31 => M::NewLeaf {},
        32 => M::ThroughInner {},
        33 => M::ThroughInnerOp { value: scalar(rng) },
        34 => M::ToDevice {},
        35 if everywhere => M::Cast {
            dtype: rng.pick(&[FloatDType::BF16, FloatDType::F64, FloatDType::F16]),
        },
        35 => M::Cast {
            dtype: FloatDType::F16,
        },
        36 => M::Cast {
            dtype: FloatDType::F32,
        },
        _ => {
            let y = growing.operand_where(|growing, y| {
                let y_shape = &growing.shapes[y];
                growing.dtypes[y] == dtype && y_shape.len() == rank && y_shape[dim] <= size
            })?;
            let rng = &mut growing.rng;
            let op = match rng.below(5) {
                0 | 1 => M::SliceAssign {
                    dim,
                    start: rng.below(size + 1),
                },
                2 => M::SelectAdd { dim, seed },
                3 => M::ScatterAdd { dim, seed },
                _ => M::ScatterNd {
                    seed: rng.below(100) as u64,
                },
            };
            return Some((Op::Movement(op), vec![x, y]));
        }
    };
    Some((Op::Movement(op), vec![x]))
}
