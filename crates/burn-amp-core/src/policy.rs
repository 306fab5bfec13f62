//! The policy in force: the compute dtype and the class of every op, and what follows from them for one call.

use std::collections::BTreeMap;

use crate::{Class, Dtype, Op};

/// The compute dtype and the class of every op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    compute: Dtype,
    /// Indexed by [`Op`]; `None` where no class applies.
    classes: Vec<Option<Class>>,
}

/// What the policy sees of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// The join of the float operands' storage dtypes; `None` without float operands.
    pub widest: Option<Dtype>,
    /// Whether the operands have more than one dtype.
    pub mixed: bool,
    /// Whether the scalar guard found a scalar operand that the storage dtype would lose.
    pub guarded: bool,
    /// Whether the call must not be lowered: inside `full_precision`, or on a gradient that was handed out.
    pub exact: bool,
}

/// What happens to the floats of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Casts {
    /// The dtype all float operands are cast to; `None` leaves them as they are.
    pub operands: Option<Dtype>,
    /// The dtype float results are cast to; `None` leaves them as they are.
    pub results: Option<Dtype>,
}

impl Operands {
    /// These operands and one more of `dtype`.
    #[inline]
    pub fn and(mut self, dtype: Dtype) -> Self {
        self.mixed |= self.widest.is_some_and(|widest| widest != dtype);
        self.widest = Some(self.widest.map_or(dtype, |widest| widest.join(dtype)));
        self
    }
}

impl Policy {
    /// The table's classes for `compute`, changed by `overrides`.
    ///
    /// Overrides of ops that no class applies to have no effect; the configuration refuses them.
    pub fn new(compute: Dtype, overrides: &BTreeMap<Op, Class>) -> Self {
        Self::from_table(compute, overrides, |class| class)
    }

    /// As [`new`](Self::new), but what the table computes in F32 runs low too: preset `o3`.
    pub fn all_low(compute: Dtype, overrides: &BTreeMap<Op, Class>) -> Self {
        Self::from_table(compute, overrides, |class| match class {
            Class::Low | Class::Full | Class::Internal => Class::Low,
            Class::Widest | Class::Keep => class,
        })
    }

    fn from_table(
        compute: Dtype,
        overrides: &BTreeMap<Op, Class>,
        change: impl Fn(Class) -> Class,
    ) -> Self {
        let classes = Op::ALL
            .iter()
            .map(|op| {
                let class = change(op.class(compute)?);
                Some(overrides.get(op).copied().unwrap_or(class))
            })
            .collect();
        Self { compute, classes }
    }

    /// The dtype of `Low` ops.
    pub fn compute(&self) -> Dtype {
        self.compute
    }

    /// The class of `op`, or `None` if no class applies to it.
    #[inline]
    pub fn class(&self, op: Op) -> Option<Class> {
        self.classes[op as usize]
    }

    /// The casts around a call of `op`.
    #[inline]
    pub fn casts(&self, op: Op, operands: Operands) -> Casts {
        match self.class(op) {
            Some(class) => self.casts_of(class, operands),
            None => Casts::default(),
        }
    }

    /// The casts around a call of some op of class `class`.
    #[inline]
    pub fn casts_of(&self, class: Class, operands: Operands) -> Casts {
        let Some(widest) = operands.widest else {
            return Casts::default();
        };
        let operands_to = |to| Casts {
            operands: to,
            results: None,
        };
        let promoted = operands_to(operands.mixed.then_some(widest));
        if widest == Dtype::F64 {
            return promoted;
        }
        if operands.exact {
            return operands_to(Some(Dtype::F32));
        }
        match class {
            Class::Low => operands_to(Some(self.compute)),
            Class::Full => operands_to(Some(Dtype::F32)),
            Class::Internal => Casts {
                operands: Some(Dtype::F32),
                results: Some(widest),
            },
            Class::Widest | Class::Keep if operands.guarded => operands_to(Some(Dtype::F32)),
            Class::Widest | Class::Keep => promoted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn casts(op: Op, dtypes: &[Dtype]) -> Casts {
        let operands = dtypes
            .iter()
            .fold(Operands::default(), |all, d| all.and(*d));
        Policy::new(Dtype::BF16, &BTreeMap::new()).casts(op, operands)
    }

    #[test]
    fn each_class_casts_as_it_says() {
        use Dtype::{BF16, F16, F32};
        let to = |operands, results| Casts { operands, results };
        assert_eq!(casts(Op::float_matmul, &[F32, BF16]), to(Some(BF16), None));
        assert_eq!(casts(Op::float_exp, &[BF16]), to(Some(F32), None));
        assert_eq!(casts(Op::gelu, &[BF16]), to(Some(F32), Some(BF16)));
        assert_eq!(casts(Op::float_add, &[BF16, F16]), to(Some(F32), None));
        assert_eq!(casts(Op::float_add, &[BF16, BF16]), to(None, None));
        assert_eq!(casts(Op::float_neg, &[BF16]), to(None, None));
        assert_eq!(casts(Op::float_cast, &[BF16]), to(None, None));
    }

    #[test]
    fn f64_is_never_touched_and_carries_the_rest_along() {
        for op in Op::ALL {
            assert_eq!(casts(*op, &[Dtype::F64]), Casts::default(), "{op}");
        }
        assert_eq!(
            casts(Op::float_matmul, &[Dtype::F64, Dtype::F32]).operands,
            Some(Dtype::F64)
        );
    }

    #[test]
    fn all_low_runs_low_what_the_table_computes_in_f32() {
        let table = Policy::new(Dtype::BF16, &BTreeMap::new());
        let all_low = Policy::all_low(Dtype::BF16, &BTreeMap::from([(Op::float_exp, Class::Full)]));
        for op in Op::ALL {
            let expected = match table.class(*op) {
                Some(Class::Full) if *op == Op::float_exp => Some(Class::Full),
                Some(Class::Low | Class::Full | Class::Internal) => Some(Class::Low),
                other @ (Some(Class::Widest | Class::Keep) | None) => other,
            };
            assert_eq!(all_low.class(*op), expected, "{op}");
        }
    }

    #[test]
    fn an_exact_call_runs_in_f32() {
        let policy = Policy::new(Dtype::BF16, &BTreeMap::new());
        let operands = Operands {
            exact: true,
            ..Operands::default().and(Dtype::F32)
        };
        for op in Op::ALL {
            let to = policy.casts(*op, operands).operands;
            assert!(matches!(to, None | Some(Dtype::F32)), "{op}");
        }
    }

    #[test]
    fn mixed_operands_are_promoted_under_every_class() {
        for class in Class::ALL {
            let policy = Policy::new(Dtype::F16, &BTreeMap::from([(Op::float_add, class)]));
            let operands = Operands::default().and(Dtype::F32).and(Dtype::F16);
            assert!(
                policy.casts(Op::float_add, operands).operands.is_some(),
                "{class}"
            );
        }
    }
}
