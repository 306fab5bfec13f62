//! What the code of the kernel depends on.

use super::MomentFormat;

/// What the code of a kernel depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Code {
    /// Adam or AdamW, not SGD.
    pub(super) is_adam: bool,
    /// Whether the parameter decays apart from the gradient.
    pub(super) is_decoupled: bool,
    pub(super) decays: bool,
    pub(super) is_cautious: bool,
    pub(super) amsgrad: bool,
    pub(super) has_momentum: bool,
    pub(super) nesterov: bool,
    pub(super) has_master: bool,
    /// The bits of the offset as which the master is kept; 0 if it is not.
    pub(super) offset_bits: u32,
    pub(super) has_low: bool,
    pub(super) is_scaled: bool,
    pub(super) may_overflow: bool,
    pub(super) is_clipped: bool,
    /// The number of moments.
    pub(super) count: usize,
    /// The format of the moments; wide if there are none.
    pub(super) moments: MomentFormat,
    /// Whether the weight is rounded stochastically, to the bits that are kept of it.
    pub(super) draws_weight: bool,
}
