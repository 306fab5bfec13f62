//! The reasons for classes that a reader would not have guessed.

use crate::Op;

/// Ops, and the reason for their class in the table.
const REASONS: &[(&[Op], &str)] = &[
    (
        &[Op::float_div],
        "in f16, the backward pass squares the divisor, which overflows from 256 on",
    ),
    (
        &[
            #[cfg(not(burn_0_22))]
            Op::float_scatter_add,
            #[cfg(burn_0_22)]
            Op::float_scatter,
            Op::float_scatter_nd,
            #[cfg(not(burn_0_22))]
            Op::float_select_add,
            #[cfg(burn_0_22)]
            Op::float_select_assign,
        ],
        "it accumulates sums, which stop growing at 256 in bf16",
    ),
    (
        &[
            Op::float_sum,
            Op::float_sum_dim,
            Op::float_mean,
            Op::float_mean_dim,
            Op::float_cumsum,
        ],
        "kernels accumulate in f32 but write the operand's dtype, so the sum of 4096 values of 16 is inf in f16",
    ),
    (
        &[
            Op::float_powi,
            Op::float_powi_scalar,
            Op::float_powi_scalar_impl,
            Op::float_powf,
            Op::float_powf_scalar,
            Op::float_powf_scalar_impl,
        ],
        "a square overflows f16 from 256 on, and `Tensor::square` is such a power",
    ),
    (
        &[Op::float_cos, Op::float_sin],
        "positions near 10^4 are 8 apart in f16 and 64 apart in bf16",
    ),
    (
        &[Op::float_tanh, Op::sigmoid],
        "the result is bounded, so nothing overflows and the only error is rounding; ops that would magnify it, such as \
         a logarithm, get the result in f32",
    ),
    (
        &[Op::gelu, Op::gelu_backward],
        "Burn's provided backward pass cubes the operand, which gives NaN in f16 from 40.4 on",
    ),
    (
        &[Op::embedding],
        "it is a look-up: casting the whole table costs vocabulary × width, so the next op casts only the rows that were \
         looked up",
    ),
    (
        &[Op::softmin, Op::log_sigmoid],
        "most backends compose it of several ops; one cast before the first is enough",
    ),
    (
        &[Op::softmax, Op::layer_norm],
        "one kernel computes it in f32, so nothing is lost inside, and the ops that read the result read it in low \
         precision anyway",
    ),
    (
        &[Op::log_softmax],
        "one kernel computes it in f32, but losses are computed from the result, and 2.30 and 2.31 are the same number \
         in bf16",
    ),
];

impl Op {
    /// The reason for the class of this op in the table, where a reader would have guessed another class.
    pub fn class_reason(self) -> Option<&'static str> {
        let of_self = REASONS.iter().find(|(ops, _)| ops.contains(&self));
        of_self.map(|(_, reason)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Precision;

    #[test]
    fn a_reason_is_given_once_and_for_an_op_with_a_class() {
        let mut seen = BTreeSet::new();
        for op in REASONS.iter().flat_map(|(ops, _)| *ops) {
            assert!(op.class(Precision::F16).is_some(), "{op} has no class");
            assert!(seen.insert(op.name()), "{op} has two reasons");
        }
    }
}
