//! Ops along a dimension, and layers.

use super::{Growing, Op, R};
use crate::random::layers::LayerSpec;

/// Proposes an op along a dimension of `x`.
pub(super) fn reduction(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let shape = growing.shapes[x].clone();
    let dtype = growing.dtypes[x];
    let everywhere = growing.limits.everywhere;
    let rng = &mut growing.rng;
    let dim = if rng.percent(50) {
        shape.len() - 1
    } else {
        rng.below(shape.len())
    };
    let (size, seed) = (rng.pick(&[1, 2, 3]), rng.bits());
    let op = match rng.below(42) {
        0 => R::Sum {},
        1 => R::Mean {},
        2..6 => R::SumDim { dim },
        6..11 => R::MeanDim { dim },
        11 => R::ProdDim { dim },
        12 => rng.pick(&[R::Max {}, R::Min {}, R::MaxAbs {}]),
        13..15 => R::MaxDim { dim },
        15 => rng.pick(&[R::MinDim { dim }, R::MaxAbsDim { dim }]),
        16 => R::CumSum { dim },
        17 => rng.pick(&[R::CumProd { dim }, R::CumMax { dim }, R::CumMin { dim }]),
        18..23 => R::Softmax { dim },
        23..25 => R::LogSoftmax { dim },
        25 => R::Softmin { dim },
        26 => R::Sort {
            dim,
            descending: rng.percent(50),
        },
        27 => R::TopK {
            dim,
            k: rng.pick(&[1, 2, 5]),
        },
        28 => R::ArgmaxAsNumbers { dim },
        29 => R::CountAbove { limit: 0.2, dim },
        30 | 31 => R::CrossEntropy { seed },
        32 => R::WeightedSum { seed },
        33 => R::MaxPool1d { size, stride: size },
        34 => R::AvgPool1d { size, stride: 1 },
        35 => R::MaxPool2d { size, stride: size },
        36 => R::AvgPool2d { size, stride: 1 },
        37 => R::AdaptiveAvgPool2d { size },
        38 if everywhere => R::Dropout {
            seed,
            keep: rng.pick(&[0.5, 0.9]),
        },
        _ => {
            let fits = |growing: &Growing, y: usize| {
                growing.dtypes[y] == dtype && growing.shapes[y] == shape
            };
            let (y, z) = (growing.operand_where(fits)?, growing.operand_where(fits)?);
            let (op, operands) = match growing.rng.below(5) {
                0 => (R::GatherArgmax { dim }, vec![x, y]),
                1 => (R::SoftCrossEntropy { dim }, vec![x, y]),
                2 => (R::Cross { dim }, vec![x, y]),
                3 => (R::Attention {}, vec![x, y, z]),
                _ => (R::CausalAttention {}, vec![x, y, z]),
            };
            return Some((Op::Reduction(op), operands));
        }
    };
    Some((Op::Reduction(op), vec![x]))
}

/// Proposes a layer on `x`, perhaps one that has run before.
pub(super) fn layer(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let shape = growing.shapes[x].clone();
    let rng = &mut growing.rng;
    // A layer may run again: with shared parameters, as in a recurrent net.
    if !growing.program.layers.is_empty() && rng.percent(50) {
        let number = rng.below(growing.program.layers.len());
        return Some((Op::Layer(number), vec![x]));
    }
    let last = *shape.last()?;
    let width = rng.pick(&[4, 8, 16, 32, 36]);
    let kernel = rng.pick(&[1, 2, 3]);
    let channels = *shape.get(1)?;
    let output = rng.pick(&[1, 4, 8]);
    let layer = match (rng.below(9), shape.len()) {
        (0 | 1, _) | (_, 2) if !(shape.len() == 2 && rng.percent(30)) => LayerSpec::Linear {
            input: last,
            output: width,
            bias: rng.percent(60),
        },
        (2, _) => LayerSpec::LayerNorm { width: last },
        (3, _) => LayerSpec::RmsNorm { width: last },
        (_, 2) => LayerSpec::Embedding { words: 5, width },
        (4, 3) => LayerSpec::Lstm {
            input: last,
            hidden: 8,
        },
        (5, 3) => LayerSpec::Gru {
            input: last,
            hidden: 8,
        },
        (6, 3) if last % 4 == 0 => LayerSpec::Attention {
            width: last,
            heads: rng.pick(&[1, 2, 4]),
        },
        (7, 3) => LayerSpec::Conv1d {
            input: channels,
            output,
            kernel,
        },
        (8, 3) => LayerSpec::ConvTranspose1d {
            input: channels,
            output,
            kernel,
        },
        (4, 4) => LayerSpec::ConvTranspose2d {
            input: channels,
            output,
            kernel,
        },
        (5 | 6, 4) => LayerSpec::Conv2d {
            input: channels,
            output,
            kernel,
        },
        (7, 4) if channels % 2 == 0 => LayerSpec::GroupNorm {
            groups: 2,
            channels,
        },
        (8, 4) => LayerSpec::InstanceNorm { channels },
        (_, 3 | 4) => LayerSpec::BatchNorm { channels },
        _ => return None,
    };
    layer.shape(&shape)?;
    let number = growing.layer(layer);
    Some((Op::Layer(number), vec![x]))
}
