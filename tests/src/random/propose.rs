//! Proposes sizes, shapes and steps.

use burn_backend::FloatDType;

use super::{
    elementwise::Elementwise as E,
    generate::{Growing, Limits},
    layers::LayerSpec,
    movement::Movement as M,
    program::Op,
    reduction::Reduction as R,
    rng::Rng,
    setting::Mask,
    shape::Shape,
};

/// The sizes from which the shapes of a program are made; few, so that shapes fit each other.
pub fn sizes(rng: &mut Rng, limits: Limits) -> Vec<usize> {
    // Squares of 32 have 1024 elements, from which on values wait.
    let usual: &[usize] = &[1, 2, 3, 4, 7, 8, 12, 16, 17, 31, 32, 33, 36, 48, 64];
    let large: Vec<usize> = usual
        .iter()
        .copied()
        .filter(|n| n * n <= limits.elements)
        .collect();
    let main = rng.pick(&[8, 16, 32, 32, 33, 36, 36, 48]);
    vec![
        main,
        main,
        main,
        rng.pick(&large),
        rng.pick(&large),
        rng.below(6),
    ]
}

/// A shape of a leaf.
pub fn leaf_shape(rng: &mut Rng, sizes: &[usize], limits: Limits) -> Shape {
    loop {
        let rank = rng.pick(&[1, 2, 2, 2, 2, 3, 3, 4, 5, 6]);
        let mut shape: Shape = (0..rank).map(|_| rng.pick(sizes)).collect();
        if rank > 2 {
            shape[0] = rng.pick(&[1, 2, 3, 4]);
        }
        if rank > 3 {
            shape[1] = rng.pick(&[1, 2, 3, 4, 8]);
        }
        // Empty tensors now and then; factors that are broadcast.
        if shape.contains(&0) && !rng.percent(10) {
            continue;
        }
        if rng.percent(20) {
            let dim = rng.below(rank);
            shape[dim] = 1;
        }
        if shape.iter().product::<usize>() <= limits.elements {
            return shape;
        }
    }
}

/// A mask.
pub fn mask(rng: &mut Rng) -> Mask {
    match rng.below(8) {
        0..4 => Mask::Random(rng.bits()),
        4 => Mask::All(rng.percent(50)),
        5 => Mask::Above(rng.pick(&[0.0, 0.3, -0.7])),
        6 => Mask::NotAbove(rng.pick(&[0.0, 0.3, 1.1])),
        _ => Mask::Near(rng.pick(&[0.5, 1.0])),
    }
}

/// A scalar operand; some are lost in low precision, others are merely rounded.
pub fn scalar(rng: &mut Rng) -> f64 {
    let usual = [
        0.5,
        2.0,
        0.25,
        -1.0,
        3.0,
        0.1,
        0.99,
        0.999,
        1.0 / 3.0,
        -0.7,
        1.5,
        10.0,
        0.01,
        1.0,
    ];
    rng.pick(&usual)
}

/// Proposes a step.
pub fn step(growing: &mut Growing) -> Option<(Op, Vec<usize>)> {
    // What is not F32 goes back soon.
    let x = growing.operand();
    if growing.dtypes[x] != FloatDType::F32 && growing.rng.percent(40) {
        return Some((
            Op::Movement(M::Cast {
                dtype: FloatDType::F32,
            }),
            vec![x],
        ));
    }
    match growing.rng.below(100) {
        0..22 => Some((Op::Elementwise(unary(growing)), vec![x])),
        22..45 => binary(growing, x),
        45..60 => matmul(growing, x),
        60..78 => movement(growing, x),
        78..92 => reduction(growing, x),
        _ => layer(growing, x),
    }
}

fn unary(growing: &mut Growing) -> E {
    let rng = &mut growing.rng;
    let value = scalar(rng);
    match rng.below(52) {
        0 => E::Neg {},
        1 => E::Recip {},
        2 | 3 => E::Exp {},
        4 => E::Log {},
        5 => E::Log1p {},
        6 => E::Sqrt {},
        7 => E::Abs {},
        8 => E::Cos {},
        9 => E::Sin {},
        10 | 11 => E::Tanh {},
        12 => E::Erf {},
        13 => E::Sign {},
        14 => rng.pick(&[E::Round {}, E::Floor {}, E::Ceil {}, E::Trunc {}]),
        15..19 => E::Relu {},
        19 => E::Gelu {},
        20 | 21 => E::Sigmoid {},
        22 => rng.pick(&[
            E::LogSigmoid {},
            E::HardSigmoid {},
            E::LeakyRelu { slope: 0.01 },
        ]),
        23..25 => E::AddScalar { value },
        25 => E::SubScalar { value },
        26..30 => E::MulScalar { value },
        30..32 => E::DivScalar { value },
        32 => E::RemainderScalar { value: 1.5 },
        33..37 => E::Powi { exponent: 2 },
        37 => E::Powi { exponent: 3 },
        38 => E::Powf {
            exponent: rng.pick(&[2.0, 0.5, 1.5]),
        },
        39 => rng.pick(&[
            E::ClampMin { min: 0.0 },
            E::ClampMax { max: 0.7 },
            E::Clamp {
                min: -0.9,
                max: 1.1,
            },
        ]),
        40 => E::Twice {},
        41 | 42 => E::TimesItself {},
        43..46 => E::MaskFill {
            mask: mask(rng),
            value: rng.pick(&[0.0, 0.5, -7.0, 100.0]),
        },
        46 => E::MaskAsNumbers { mask: mask(rng) },
        47 => E::PlusNoise { seed: rng.bits() },
        48 => E::TimesNoise { seed: rng.bits() },
        49 => rng.pick(&[E::Tan {}, E::Sinh {}, E::Cosh {}, E::Atan {}, E::Asinh {}]),
        50 => rng.pick(&[E::Asin {}, E::Acos {}, E::Acosh {}, E::Atanh {}]),
        _ => E::Neg {},
    }
}

fn binary(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let dtype = growing.dtypes[x];
    let is_cat = growing.rng.percent(12);
    if is_cat {
        return cat(growing, x);
    }
    let same_shape = growing.rng.percent(50);
    let y = growing.operand_where(|growing, y| {
        let (x, y_shape) = (&growing.shapes[x], &growing.shapes[y]);
        growing.dtypes[y] == dtype
            && if same_shape {
                x == y_shape
            } else {
                super::shape::broadcast(x, y_shape).is_some()
            }
    })?;
    let (x, y) = if growing.rng.percent(30) {
        (y, x)
    } else {
        (x, y)
    };
    let rng = &mut growing.rng;
    let op = match rng.below(24) {
        0..6 => E::Add {},
        6..10 => E::Sub {},
        10..16 => E::Mul {},
        16..19 => E::Div {},
        19 => E::MaskFillBy {
            mask: mask(rng),
            value: 0.5,
        },
        20 => E::MaskWhere { mask: mask(rng) },
        21 => rng.pick(&[E::WhereGreater {}, E::WhereEitherLower { limit: 0.1 }]),
        22 => E::Prelu {},
        _ => rng.pick(&[E::Atan2 {}, E::PowTensor {}]),
    };
    Some((Op::Elementwise(op), vec![x, y]))
}

fn cat(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let dim = growing.rng.below(growing.shapes[x].len());
    let dtype = growing.dtypes[x];
    let fits = |growing: &Growing, y: usize| {
        growing.dtypes[y] == dtype
            && super::shape::joined(&growing.shapes[x], &growing.shapes[y], dim).is_some()
    };
    let (y, z) = (growing.operand_where(fits)?, growing.operand_where(fits)?);
    let (op, operands) = match growing.rng.below(8) {
        0 => (M::CatThree { dim }, vec![x, y, z]),
        1 => (
            M::CatMany {
                dim,
                times: growing.rng.pick(&[3, 8, 9]),
            },
            vec![x, y],
        ),
        2 => (M::CatWithOnes { dim }, vec![x]),
        _ => (M::Cat { dim }, vec![x, y]),
    };
    Some((Op::Movement(op), operands))
}

fn matmul(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
    let dtype = growing.dtypes[x];
    let y = growing.operand_where(|growing, y| {
        let (x, y_shape) = (&growing.shapes[x], &growing.shapes[y]);
        growing.dtypes[y] == dtype
            && (super::shape::product(x, y_shape).is_some()
                || super::shape::product(y_shape, x).is_some())
    })?;
    let fits = super::shape::product(&growing.shapes[x], &growing.shapes[y]).is_some();
    let operands = if fits { vec![x, y] } else { vec![y, x] };
    Some((Op::Reduction(R::Matmul {}), operands))
}

fn movement(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
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
        22..25 => M::Slice {
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

fn reduction(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
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

fn layer(growing: &mut Growing, x: usize) -> Option<(Op, Vec<usize>)> {
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
