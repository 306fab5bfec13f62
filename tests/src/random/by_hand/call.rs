//! One call of an op: what the policy needs to know about the operands, and the dtypes that it decides.

use burn_amp_core::{Casts, Operands, scalar};
use burn_amp_kernels::names::shape_of;

use crate::prelude::*;

use super::{Known, ROUNDING, Rounded, Rounding, Scope, in_f64, rounded};

/// What the policy decides about a call.
pub struct Decided {
    pub(super) casts: Casts,
    /// The dtype in which the result is stored, and the one that the program sees.
    pub(super) stored: Precision,
    pub(super) logical: Precision,
    /// Whether readers in F32 may get the values that were rounded.
    pub(super) remembers: bool,
    /// The dtype in which the backend accumulates products, if it is a low one.
    pub(super) accumulates_in: Option<Precision>,
}

/// A call of an op: what the policy needs to know about the operands.
pub(super) struct Call {
    op: Op,
    operands: Operands,
    pub(super) scalars: Vec<f64>,
    /// The operand that the others do not count beside, by its dtypes.
    aside: Vec<(Precision, Precision, Known, usize)>,
    largest: usize,
}

impl Call {
    pub(super) fn new(op: Op) -> Self {
        Self {
            op,
            operands: Operands::default(),
            scalars: vec![],
            aside: vec![],
            largest: 0,
        }
    }

    pub(super) fn float(&mut self, x: &Rounded) {
        match (self.op, self.aside.len()) {
            (Op::float_div, 1) | (Op::float_recip, 0) | (Op::float_atan2, _) => divides_by(x),
            _ => {}
        }
        let elements = x.shape().num_elements();
        self.largest = self.largest.max(elements);
        self.aside.push((x.stored, x.logical, x.known, elements));
    }

    pub(super) fn decide(mut self) -> Decided {
        let arithmetic =
            [Op::float_add, Op::float_sub, Op::float_mul, Op::float_div].contains(&self.op);
        let moves =
            [Op::float_cat, Op::float_slice_assign, Op::float_mask_where].contains(&self.op);
        let is_aside = |(stored, _, known, elements): &(Precision, Precision, Known, usize)| {
            *stored == Precision::F32
                && match known {
                    Known::ZerosAndOnes => self.op == Op::float_mul,
                    Known::Filled => moves,
                    Known::Nothing => arithmetic && *elements == 1 && self.largest > 1,
                }
        };
        let (aside, others): (Vec<_>, Vec<_>) = self.aside.drain(..).partition(is_aside);
        let mut operands = self.operands;
        for (stored, logical, ..) in &others {
            operands = operands.and(*stored, *logical);
        }
        for (stored, logical, known, _) in aside {
            operands = match (known, operands.widest) {
                (Known::Nothing, Some(widest)) if widest.is_low() => {
                    operands.and_one_element(logical)
                }
                (Known::Nothing, _) => operands.and(stored, logical),
                _ => operands.and_zeros_and_ones(stored, logical),
            };
        }
        let remembers =
            [Op::float_mul, Op::sigmoid, Op::float_tanh, Op::softmax].contains(&self.op);
        ROUNDING.with_borrow(|rounding| {
            let widest = operands.widest.unwrap_or(Precision::F32);
            let logical = operands.logical.unwrap_or(widest);
            let promoted = |operands: Operands| Decided {
                casts: operands.promoted(),
                stored: widest,
                logical,
                remembers: false,
                accumulates_in: None,
            };
            let Some(Rounding { policy, scope, .. }) = rounding else {
                return promoted(operands);
            };
            let is_low = policy.class(self.op) == Some(Class::Low);
            if *scope == Scope::Backward && !is_low {
                return promoted(operands);
            }
            operands.exact = *scope == Scope::Exact;
            if let Some(dtype) = operands.widest.filter(|dtype| dtype.is_low()) {
                operands.guarded = self.scalars.iter().any(|x| match self.op {
                    Op::float_div_scalar => scalar::is_lost_divisor(*x, dtype),
                    Op::float_equal_elem | Op::float_not_equal_elem => {
                        scalar::is_rounded(*x, dtype)
                    }
                    _ => scalar::is_lost(*x, dtype),
                });
            }
            let casts = policy.casts(self.op, operands);
            let stored = casts.results.or(casts.operands).unwrap_or(widest);
            let computes_in = casts.operands.unwrap_or(widest);
            Decided {
                casts,
                stored,
                logical: casts.logical.unwrap_or(stored),
                remembers,
                accumulates_in: (is_low && computes_in.is_low()).then_some(computes_in),
            }
        })
    }
}

/// Notes the signs of a divisor.
fn divides_by(x: &Rounded) {
    ROUNDING.with_borrow_mut(|rounding| {
        if let Some(rounding) = rounding {
            let values = x.values.clone().into_data();
            let signs = values.iter::<f64>().map(|x| x.partial_cmp(&0.0));
            rounding.divisor_signs.extend(signs);
        }
    });
}

/// The values of a product, with the rounding errors that the backend makes when it adds up in low precision. The error
/// of the result itself is left out: it is how far the result that the backend computes is from the one that is
/// rounded once.
pub(super) fn with_errors(
    values: FloatTensor<Flex>,
    in_low: Option<(FloatTensor<Flex>, Precision)>,
) -> FloatTensor<Flex> {
    let Some((in_low, dtype)) = in_low else {
        return values;
    };
    let (exact, in_low) = (in_f64(values).into_data(), in_f64(in_low).into_data());
    let with_error = |(exact, low): (f64, f64)| {
        let nearest = dtype.round(exact);
        if low.is_finite() && nearest.is_finite() {
            exact + (low - nearest)
        } else {
            low
        }
    };
    let values = exact.iter().zip(in_low.iter()).map(with_error);
    let values: Vec<f64> = values.collect();
    Flex::float_from_data(
        TensorData::new(values, shape_of(&exact)),
        &Default::default(),
    )
}

/// The result of an op, rounded to the dtype in which the policy stores it.
pub(super) fn result(
    values: FloatTensor<Flex>,
    stored: Precision,
    logical: Precision,
    remembers: bool,
) -> Rounded {
    let exact = in_f64(values);
    let unrounded = (remembers && stored.is_low()).then(|| exact.clone());
    let values = match stored {
        Precision::F64 => exact,
        stored => rounded(exact, stored),
    };
    Rounded {
        values,
        unrounded,
        stored,
        logical,
        known: Known::Nothing,
    }
}
