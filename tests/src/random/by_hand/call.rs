//! One call of an op: what the policy needs to know about the operands, and the dtypes that it decides.

use burn::backend::Flex;
use burn_amp_core::{Casts, Class, Op, Operands, Precision, scalar};
use burn_backend::{TensorMetadata, tensor::FloatTensor};

use super::{Known, ROUNDING, Rounded, Rounding, Scope, in_f64, rounded};

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
        let elements = x.shape().num_elements();
        self.largest = self.largest.max(elements);
        self.aside.push((x.stored, x.logical, x.known, elements));
    }

    pub(super) fn casts(mut self) -> (Casts, Precision, Precision) {
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
        ROUNDING.with_borrow(|rounding| {
            let widest = operands.widest.unwrap_or(Precision::F32);
            let logical = operands.logical.unwrap_or(widest);
            let Some(Rounding { policy, scope, .. }) = rounding else {
                return (operands.promoted(), widest, logical);
            };
            if *scope == Scope::Backward && policy.class(self.op) != Some(Class::Low) {
                return (operands.promoted(), widest, logical);
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
            (casts, stored, casts.logical.unwrap_or(stored))
        })
    }
}

/// The result of an op, stored in low precision if the policy does.
pub(super) fn result(values: FloatTensor<Flex>, stored: Precision, logical: Precision) -> Rounded {
    let values = in_f64(values);
    let values = if stored.is_low() {
        rounded(values, stored)
    } else {
        values
    };
    Rounded {
        values,
        stored,
        logical,
        known: Known::Nothing,
    }
}
