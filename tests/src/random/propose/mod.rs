//! Proposes sizes, shapes and steps.
//!
//! * [`moves`]: ops that move values
//! * [`reductions`]: ops along a dimension, and layers

mod moves;
mod reductions;

use super::{elementwise::Elementwise as E, movement::Movement as M, reduction::Reduction as R};
use crate::random::all::*;

/// The sizes from which the shapes of a program are made; few, so that shapes fit each other.
pub fn sizes(rng: &mut Rng, limits: Limits) -> Vec<usize> {
    // A square of this size may just wait for its readers.
    let square = thresholds::WORTH_WAITING.isqrt();
    let main = rng.pick(&[
        8,
        square / 2,
        square,
        square,
        square + 1,
        square + 4,
        square + 4,
        48,
    ]);
    let around = [
        square - 1,
        square,
        square + 1,
        thresholds::SMALL - 1,
        thresholds::SMALL,
        thresholds::SMALL + 1,
        2 * square,
    ];
    let all: Vec<usize> = [1, 2, 3, 4, 7, 8, 12].into_iter().chain(around).collect();
    let fitting: Vec<usize> = all
        .into_iter()
        .filter(|n| n * n <= limits.elements)
        .collect();
    vec![
        main,
        main,
        main,
        rng.pick(&fitting),
        rng.pick(&fitting),
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
        60..78 => moves::movement(growing, x),
        78..92 => reductions::reduction(growing, x),
        _ => reductions::layer(growing, x),
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
