//! Groups of steps that programs often have, and of which burn-amp defers a part: norms by hand, scaled and masked
//! softmaxes, chains of factors, residual sums.

use super::all::*;
use super::{
    elementwise::Elementwise as E,
    movement::Movement as M,
    propose::{mask, scalar},
    reduction::Reduction as R,
};

/// Adds one of the groups, as far as its steps fit.
pub fn grow(growing: &mut Growing) -> Option<usize> {
    match growing.rng.below(8) {
        0 => product(growing),
        1 => chain(growing),
        2 => norm(growing),
        3 => scores(growing),
        4 => residual(growing),
        5 => view(growing),
        6 => squares(growing),
        _ => recurrent(growing),
    }
}

fn unary(growing: &mut Growing, op: E, x: usize) -> Option<usize> {
    growing.push(Op::Elementwise(op), vec![x])
}

fn binary(growing: &mut Growing, op: E, x: usize, y: usize) -> Option<usize> {
    growing.push(Op::Elementwise(op), vec![x, y])
}

fn reduce(growing: &mut Growing, op: R, x: usize) -> Option<usize> {
    growing.push(Op::Reduction(op), vec![x])
}

/// The product of two values that fit, whatever has to be transposed: a tensor in low precision.
fn product(growing: &mut Growing) -> Option<usize> {
    let rank = |growing: &Growing, n: usize| growing.shapes[n].len();
    let x = growing.operand_where(|growing, n| rank(growing, n) >= 2)?;
    let (of, dtype) = (rank(growing, x), growing.dtypes[x]);
    let inner = growing.shapes[x][of - 1];
    let fits = |growing: &Growing, n: usize| growing.dtypes[n] == dtype && rank(growing, n) == of;
    let plain =
        growing.operand_where(|growing, n| fits(growing, n) && growing.shapes[n][of - 2] == inner);
    if let Some(y) = plain.filter(|_| growing.rng.percent(70)) {
        return growing.push(Op::Reduction(R::Matmul {}), vec![x, y]);
    }
    let y = growing
        .operand_where(|growing, n| fits(growing, n) && growing.shapes[n][of - 1] == inner)?;
    let y = growing.push(Op::Movement(M::Transpose {}), vec![y])?;
    growing.push(Op::Reduction(R::Matmul {}), vec![x, y])
}

/// A product or an operand.
fn low(growing: &mut Growing) -> Option<usize> {
    if growing.rng.percent(75) {
        product(growing)
    } else {
        Some(growing.operand())
    }
}

/// A factor for `x`: a leaf or another value that is broadcast, or a statistic of `x`.
fn factor(growing: &mut Growing, x: usize) -> Option<usize> {
    let dtype = growing.dtypes[x];
    if growing.rng.percent(50) {
        let shape = growing.shapes[x].clone();
        let found = growing.operand_where(|growing, n| {
            n != x
                && growing.dtypes[n] == dtype
                && super::shape::broadcast(&shape, &growing.shapes[n]) == Some(shape.clone())
        });
        if found.is_some() {
            return found;
        }
    }
    let dim = growing.rng.below(growing.shapes[x].len());
    let statistic = growing
        .rng
        .pick(&[R::MeanDim { dim }, R::MaxDim { dim }, R::Mean {}]);
    let one = reduce(growing, statistic, x)?;
    if growing.shapes[one].len() == growing.shapes[x].len() {
        return Some(one);
    }
    let mut one = one;
    while growing.shapes[one].len() < growing.shapes[x].len() {
        one = growing.push(Op::Movement(M::Unsqueeze { dim: 0 }), vec![one])?;
    }
    Some(one)
}

/// `(x - m) * s / t + b`, with an activation function or not, of any length up to more than is recomputed.
fn chain(growing: &mut Growing) -> Option<usize> {
    let mut x = low(growing)?;
    let length = growing
        .rng
        .pick(&[1, 1, 2, 3, 4, usize::from(thresholds::LONGEST) + 1]);
    for _ in 0..length {
        let value = scalar(&mut growing.rng);
        let op = growing.rng.pick(&[
            E::Sub {},
            E::Mul {},
            E::Div {},
            E::Add {},
            E::Relu {},
            E::MulScalar { value },
            E::AddScalar { value },
            E::DivScalar { value },
        ]);
        let next = match op {
            E::Sub {} | E::Mul {} | E::Div {} | E::Add {} => {
                let y = factor(growing, x)?;
                let swapped = growing.rng.percent(25);
                let (a, b) = if swapped { (y, x) } else { (x, y) };
                binary(growing, op, a, b)
            }
            op => unary(growing, op, x),
        };
        x = next.unwrap_or(x);
    }
    end(growing, x)
}

/// An activation function of a chain, or none.
fn end(growing: &mut Growing, x: usize) -> Option<usize> {
    let end = match growing.rng.below(8) {
        0 | 1 => E::Relu {},
        2 => E::Sigmoid {},
        3 => {
            // A SiLU.
            let sigmoid = unary(growing, E::Sigmoid {}, x)?;
            let swapped = growing.rng.percent(50);
            let (a, b) = if swapped { (sigmoid, x) } else { (x, sigmoid) };
            return binary(growing, E::Mul {}, a, b);
        }
        4 => growing.rng.pick(&[
            E::Clamp {
                min: -0.5,
                max: 0.75,
            },
            E::ClampMin { min: 0.25 },
            E::ClampMax { max: 0.5 },
        ]),
        _ => return Some(x),
    };
    unary(growing, end, x)
}

/// A norm by hand.
fn norm(growing: &mut Growing) -> Option<usize> {
    let x = low(growing)?;
    let dim = growing.rng.below(growing.shapes[x].len());
    let centred = if growing.rng.percent(70) {
        let mean = reduce(growing, R::MeanDim { dim }, x)?;
        binary(growing, E::Sub {}, x, mean)?
    } else {
        x
    };
    let square = growing.rng.pick(&[
        E::Powi { exponent: 2 },
        E::TimesItself {},
        E::Powf { exponent: 2.0 },
    ]);
    let squares = unary(growing, square, centred)?;
    let variance = growing.rng.pick(&[R::MeanDim { dim }, R::SumDim { dim }]);
    let variance = reduce(growing, variance, squares)?;
    let variance = unary(growing, E::AddScalar { value: 1e-2 }, variance)?;
    let deviation = unary(growing, E::Sqrt {}, variance)?;
    let normed = binary(growing, E::Div {}, centred, deviation)?;
    let scale = factor(growing, normed)?;
    let scaled = binary(growing, E::Mul {}, normed, scale)?;
    end(growing, scaled)
}

/// Scaled and masked scores, with a softmax or another reader.
fn scores(growing: &mut Growing) -> Option<usize> {
    let mut x = low(growing)?;
    let value = growing.rng.pick(&[0.125, 0.1767767, 0.5, 5.0]);
    let scaled = growing
        .rng
        .pick(&[E::MulScalar { value }, E::DivScalar { value: 1.0 / value }]);
    if growing.rng.percent(80) {
        x = unary(growing, scaled, x)?;
    }
    let mask = mask(&mut growing.rng);
    let hidden = growing.rng.pick(&[-900.0, -1.0, 0.0]);
    if growing.rng.percent(60) {
        x = unary(
            growing,
            E::MaskFill {
                mask,
                value: hidden,
            },
            x,
        )?;
    }
    let dim = growing.shapes[x].len() - 1;
    let reader = growing.rng.pick(&[
        R::Softmax { dim },
        R::Softmax { dim },
        R::LogSoftmax { dim },
        R::SumDim { dim },
    ]);
    reduce(growing, reader, x)
}

/// A residual sum, perhaps of a chain, with a ReLU or not.
fn residual(growing: &mut Growing) -> Option<usize> {
    let x = if growing.rng.percent(60) {
        chain(growing)
    } else {
        low(growing)
    }?;
    let (shape, dtype) = (growing.shapes[x].clone(), growing.dtypes[x]);
    let y = growing
        .operand_where(|growing, n| growing.shapes[n] == shape && growing.dtypes[n] == dtype)?;
    let sum = binary(growing, E::Add {}, x, y)?;
    if growing.rng.percent(50) {
        unary(growing, E::Relu {}, sum)
    } else {
        Some(sum)
    }
}

/// A view of a chain or a product, which a product or a cat reads.
fn view(growing: &mut Growing) -> Option<usize> {
    let x = if growing.rng.percent(60) {
        chain(growing)
    } else {
        low(growing)
    }?;
    let rank = growing.shapes[x].len();
    let dim = growing.rng.below(rank);
    let view = growing.rng.pick(&[
        M::Transpose {},
        M::SwapDims { a: 0, b: rank - 1 },
        M::Merge { dim },
        M::Split { dim, size: 4 },
        M::Flip { dim },
        M::Repeat { dim, times: 2 },
        M::Cat { dim },
    ]);
    let operands = if matches!(view, M::Cat { .. }) {
        vec![x, x]
    } else {
        vec![x]
    };
    growing.push(Op::Movement(view), operands)
}

/// Squares, and a reader of them.
fn squares(growing: &mut Growing) -> Option<usize> {
    let x = if growing.rng.percent(50) {
        chain(growing)
    } else {
        low(growing)
    }?;
    let x = if growing.rng.percent(40) {
        unary(growing, E::Relu {}, x)?
    } else {
        x
    };
    let exponent = growing.rng.pick(&[2, 2, 2, 3]);
    let squares = unary(growing, E::Powi { exponent }, x)?;
    let dim = growing.rng.below(growing.shapes[x].len());
    match growing.rng.below(5) {
        0 => reduce(growing, R::MeanDim { dim }, squares),
        1 => reduce(growing, R::Sum {}, squares),
        2 => growing.push(Op::Movement(M::Transpose {}), vec![squares]),
        _ => Some(squares),
    }
}

/// One weight, used several times in a row.
fn recurrent(growing: &mut Growing) -> Option<usize> {
    let is_square = |growing: &Growing, n: usize| {
        let shape = &growing.shapes[n];
        shape.len() == 2 && shape[0] == shape[1] && growing.program.leaves.len() > n
    };
    let weight = growing.operand_where(is_square)?;
    let size = growing.shapes[weight][0];
    let dtype = growing.dtypes[weight];
    let mut x = growing.operand_where(|growing, n| {
        growing.shapes[n].len() == 2 && growing.shapes[n][1] == size && growing.dtypes[n] == dtype
    })?;
    for _ in 0..growing.rng.pick(&[2, 3, 5, 17]) {
        let product = growing.push(Op::Reduction(R::Matmul {}), vec![x, weight])?;
        x = unary(growing, E::Tanh {}, product)?;
    }
    Some(x)
}
