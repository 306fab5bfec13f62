//! The op that is called: a row of the table, or one of the user's own.

use burn_amp_core::{Class, Op, Precision};
use burn_amp_kernels::AmpBackend;

use crate::{graph::Graph, tensor::AmpTensor};

/// The op that is called.
#[derive(Clone, Copy)]
pub(super) enum Callee {
    /// An op with a row in the table.
    Op(Op),
    /// An op that Burn does not know, with the class that its caller gives.
    Custom(Class),
}

impl Callee {
    /// Returns the op, or `None` if it is not in the table.
    #[inline]
    pub(super) fn op(self) -> Option<Op> {
        match self {
            Self::Op(op) => Some(op),
            Self::Custom(_) => None,
        }
    }

    /// The dtype in which an operand counts for the policy, and in which an op that keeps dtypes reads it.
    #[inline]
    pub(super) fn stored<B: AmpBackend, G: Graph<B>>(self, tensor: &AmpTensor<B, G>) -> Precision {
        match tensor.recipe() {
            Some(recipe) if recipe.is_rounded() && !self.reads_rounded() => Precision::F32,
            _ => tensor.stored(),
        }
    }

    /// Whether the op reads a rounded result as it is stored: a product scales the rounding error, and does not
    /// magnify it. Ops of class `Low` read it so as well, but their class says that.
    #[inline]
    pub(super) fn reads_rounded(self) -> bool {
        matches!(
            self,
            Self::Op(Op::float_mul | Op::float_mul_scalar | Op::float_div_scalar)
        )
    }
}
