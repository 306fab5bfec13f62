//! Which results a graph computes again in the backward pass instead of keeping them.
//!
//! A chain of F32 ops on a tensor that is stored in low precision, such as a batch norm on the output of a convolution,
//! would keep each intermediate result in F32 for its backward pass. The low tensor and a few statistics give all of
//! them back, bit for bit. So the ops of such a chain are recorded as *memory bound* in the words of burn-autodiff: the
//! graph keeps a closure that computes the result again, and those of its operands that are not recomputed themselves.
//!
//! A chain starts with the cast of a low operand to F32 and goes on while no large operand has to be kept in F32 for
//! it. A low result is kept as it is, unless its op reads one operand in the backward pass, as a sigmoid does: the graph
//! keeps the operand, and need not keep the result as well.

use burn_amp_core::{Op, Precision};
use burn_amp_kernels::AmpBackend;
use burn_backend::TensorMetadata;

use crate::{
    graph::Graph,
    tensor::AmpTensor,
    thresholds::{LONGEST, worth_waiting},
};

/// An operand that is broadcast to this many times its size is small beside the result.
const BROADCAST: usize = 16;

/// The operands of an op, as far as they decide whether its result is recomputed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    operands: u8,
    /// The elements of the largest operand.
    largest: usize,
    /// The elements of the largest operand that is stored in F32 and not recomputed.
    stored: usize,
    /// Whether an operand is in no graph. burn-autodiff does not recompute a result of such an operand.
    untracked: bool,
    /// The length of the longest chain that ends in an operand.
    length: u8,
}

impl Chain {
    #[inline]
    pub(super) fn add<B: AmpBackend, G: Graph<B>>(&mut self, operand: &AmpTensor<B, G>) {
        let elements = operand.shape().num_elements();
        self.operands = self.operands.saturating_add(1);
        self.largest = self.largest.max(elements);
        self.length = self.length.max(operand.recorded.chain);
        self.untracked |= !operand.is_tracked();
        if !operand.stored().is_low() && operand.recorded.chain == 0 {
            self.stored = self.stored.max(elements);
        }
    }

    /// Whether the result of `op`, computed in `dtype`, should be recomputed: that keeps no large F32 tensor which the
    /// graph would not keep anyway.
    #[inline]
    pub(super) fn goes_on(self, op: Option<Op>, dtype: Precision) -> bool {
        if self.largest < worth_waiting() || self.untracked || self.length >= LONGEST {
            return false;
        }
        let Some(op) = op else {
            return false;
        };
        let reads_operands = reads_operands(op);
        match dtype {
            Precision::F32 => {
                reads_operands || passes_operands(op) && self.stored * BROADCAST <= self.largest
            }
            // PyTorch keeps the rounded result instead of the operand, and loses digits of the gradient.
            Precision::F16 | Precision::BF16 => reads_operands && self.operands == 1,
            Precision::F64 | Precision::Flex32 => false,
        }
    }

    /// The length of the chain that ends in the result of an op on these operands.
    pub(super) fn next(self) -> u8 {
        self.length + 1
    }
}

/// Whether burn-autodiff computes the result of the op again under gradient checkpointing, although the backward pass of
/// the op does not read the op's operands. Of the operands of any other such op, a reduction for example, a graph keeps
/// nothing.
fn passes_operands(op: Op) -> bool {
    matches!(
        op,
        Op::float_add
            | Op::float_sub
            | Op::float_add_scalar
            | Op::float_sub_scalar
            | Op::float_mul_scalar
            | Op::float_div_scalar
            | Op::float_neg
            | Op::float_transpose
            | Op::float_swap_dims
            | Op::float_permute
            | Op::float_flip
            | Op::float_reshape
            | Op::float_expand
            | Op::float_repeat_dim
            | Op::float_select
            | Op::float_slice
            | Op::relu
    )
}

/// Whether the backward pass of the op reads the op's operands, so that the graph keeps them in any case.
fn reads_operands(op: Op) -> bool {
    matches!(
        op,
        Op::float_mul
            | Op::float_div
            | Op::float_remainder
            | Op::float_recip
            | Op::float_exp
            | Op::float_log
            | Op::float_log1p
            | Op::float_powf
            | Op::float_powi
            | Op::float_powi_scalar
            | Op::float_powi_scalar_impl
            | Op::float_powf_scalar
            | Op::float_powf_scalar_impl
            | Op::float_sqrt
            | Op::float_abs
            | Op::float_cos
            | Op::float_sin
            | Op::float_tan
            | Op::float_cosh
            | Op::float_sinh
            | Op::float_tanh
            | Op::float_acos
            | Op::float_acosh
            | Op::float_asin
            | Op::float_asinh
            | Op::float_atan
            | Op::float_atanh
            | Op::float_atan2
            | Op::float_erf
            | Op::gelu
            | Op::sigmoid
            | Op::log_sigmoid
    )
}
