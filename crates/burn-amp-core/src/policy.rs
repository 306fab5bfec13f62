//! The policy: the compute dtype, the class of every op, and the casts of a call that follow from them.

use std::collections::BTreeMap;

use crate::{Class, Op, Precision};

/// The compute dtype and the class of every op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    compute: Precision,
    /// The class of each op, indexed by [`Op`]; `None` if no class applies to it.
    classes: Vec<Option<Class>>,
}

/// The properties of a call's operands on which its casts depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// The join of the float operands' storage dtypes; `None` if there are no float operands.
    pub widest: Option<Precision>,
    /// The join of the float operands' logical dtypes: the dtype that the plain backend would return.
    pub logical: Option<Precision>,
    /// Whether the float operands have different storage dtypes.
    pub mixed: bool,
    /// Whether an F32 operand of one element stands beside low operands: it does not count for `widest`.
    pub one_element: bool,
    /// Whether the [scalar guard](crate::scalar) found a scalar operand that is lost in the storage dtype.
    pub guarded: bool,
    /// Whether the call must not be lowered: it is inside `full_precision`, or an operand is a gradient that has left
    /// the backward pass.
    pub exact: bool,
}

/// The casts and the logical dtype of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Casts {
    /// The dtype that all float operands are cast to; `None` leaves them as they are.
    pub operands: Option<Precision>,
    /// The dtype that float results are cast to; `None` leaves them as they are.
    pub results: Option<Precision>,
    /// The logical dtype of float results; `None` without float operands, where it is the result's own dtype.
    pub logical: Option<Precision>,
}

impl Operands {
    /// Adds an operand.
    #[inline]
    pub fn and(mut self, stored: Precision, logical: Precision) -> Self {
        match self.widest {
            None => self.widest = Some(stored),
            Some(widest) if widest == stored => {}
            Some(widest) => {
                self.widest = Some(widest.join(stored));
                self.mixed = true;
            }
        }
        self.and_logical(logical)
    }

    /// Adds an operand whose values are zeros and ones, to be multiplied by the other operands.
    ///
    /// Every dtype holds zeros and ones exactly. So a mask in F32 is cast to the dtype of low operands and does not
    /// widen them.
    #[inline]
    pub fn and_zeros_and_ones(self, stored: Precision, logical: Precision) -> Self {
        if stored == Precision::F32 && self.widest.is_some_and(Precision::is_low) {
            Self {
                mixed: true,
                ..self.and_logical(logical)
            }
        } else {
            self.and(stored, logical)
        }
    }

    /// Adds an F32 operand of one element, after a larger operand in low precision.
    #[inline]
    pub fn and_one_element(self, logical: Precision) -> Self {
        Self {
            mixed: true,
            one_element: true,
            ..self.and_logical(logical)
        }
    }

    /// The casts of any op under a policy that lowers nothing: operands of different dtypes are promoted.
    #[inline]
    pub fn promoted(self) -> Casts {
        Casts {
            operands: if self.mixed { self.widest } else { None },
            results: None,
            logical: self.logical,
        }
    }

    #[inline]
    fn and_logical(mut self, logical: Precision) -> Self {
        self.logical = Some(match self.logical {
            Some(joined) => joined.join(logical),
            None => logical,
        });
        self
    }
}

impl Casts {
    /// The dtype that an operand stored in `stored` has after the cast.
    #[inline]
    pub fn computes_in(self, stored: Precision) -> Precision {
        self.operands.unwrap_or(stored)
    }
}

impl Policy {
    /// A policy with the table's classes for `compute`, except for `overrides`.
    ///
    /// An override has no effect on an op without a class; the configuration rejects it.
    pub fn new(compute: Precision, overrides: &BTreeMap<Op, Class>) -> Self {
        Self::from_table(compute, overrides, |class| class)
    }

    /// Like [`new`](Self::new), but ops that the table computes in F32, those of class `Full` and `Internal`, become
    /// `Low`: preset `o3`.
    pub fn all_low(compute: Precision, overrides: &BTreeMap<Op, Class>) -> Self {
        Self::from_table(compute, overrides, |class| match class {
            Class::Low | Class::Full | Class::Internal => Class::Low,
            Class::Widest | Class::Keep => class,
        })
    }

    fn from_table(
        compute: Precision,
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

    /// The compute dtype, in which `Low` ops run.
    #[inline]
    pub fn compute(&self) -> Precision {
        self.compute
    }

    /// The class of `op`, or `None` if no class applies to it.
    #[inline]
    pub fn class(&self, op: Op) -> Option<Class> {
        self.classes[op as usize]
    }

    /// The casts of a call of `op`.
    #[inline]
    pub fn casts(&self, op: Op, operands: Operands) -> Casts {
        match self.class(op) {
            Some(class) => self.casts_of(class, operands),
            None => Casts {
                operands: None,
                results: None,
                logical: operands.logical,
            },
        }
    }

    /// The casts of a call of any op of class `class`.
    ///
    /// A policy that lowers nothing, with the compute dtype F32, is the plain backend: it only promotes operands of
    /// different dtypes.
    #[inline]
    pub fn casts_of(&self, class: Class, operands: Operands) -> Casts {
        let (to, results) = self.storage(class, operands);
        // As under PyTorch's autocast, the loss of a model stored in half precision is F32 for the user too.
        let logical = match class {
            Class::Full if self.compute.is_low() => {
                operands.logical.map(|logical| logical.join(Precision::F32))
            }
            Class::Low | Class::Full | Class::Internal | Class::Widest | Class::Keep => {
                operands.logical
            }
        };
        Casts {
            operands: to,
            results,
            logical,
        }
    }

    /// The dtypes that the operands and the result are cast to, if any.
    #[inline]
    fn storage(&self, class: Class, operands: Operands) -> (Option<Precision>, Option<Precision>) {
        let Some(widest) = operands.widest else {
            return (None, None);
        };
        let promoted = match operands.one_element {
            true => Some(widest.join(Precision::F32)),
            false => operands.mixed.then_some(widest),
        };
        if widest == Precision::F64 || !self.compute.is_low() {
            return (promoted, None);
        }
        if operands.exact {
            return (Some(Precision::F32), None);
        }
        match class {
            Class::Low => (Some(self.compute), None),
            Class::Full => (Some(Precision::F32), None),
            Class::Internal => (Some(Precision::F32), Some(widest)),
            Class::Widest if operands.one_element => (Some(Precision::F32), Some(widest)),
            Class::Widest | Class::Keep if operands.guarded => (Some(Precision::F32), None),
            Class::Widest | Class::Keep => (promoted, None),
        }
    }
}

#[cfg(test)]
mod tests;
