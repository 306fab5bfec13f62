//! The form in which an optimizer keeps its F32 masters.

use burn_backend::IntDType;

/// The form in which the F32 masters of parameters in half precision are kept.
#[doc(alias = "master weights")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masters {
    /// Keeps them in F32: 4 bytes for each parameter.
    #[default]
    F32,
    /// Keeps 2 bytes for each BF16 parameter, which together with the parameter are the F32 master, bit for bit; for
    /// F16 parameters it keeps 4 bytes.
    ///
    /// The parameter is the master rounded to the nearest as with [`F32`](Self::F32), except that ties, one value in
    /// 65536, are rounded away from zero and not to even. Masters below 1e-28 are accurate to 2^-117. Save the
    /// parameters with a recorder of full precision, because any rounding of a parameter changes its master.
    Split,
    /// Keeps 1 byte for each BF16 parameter, which together with the parameter are the master in 24 bits: steps of 2^-15
    /// beside 1. The master is rounded [stochastically](burn_amp_kernels::optimizer::rounding), so that smaller updates are
    /// kept on average. For F16 parameters it keeps 4 bytes.
    ///
    /// An `AmpOptimizer` over Adam, AdamW or SGD does so; elsewhere this is [`Split`](Self::Split). What is said there of
    /// recorders holds here, too.
    Bits24,
    /// Keeps none for BF16 parameters, which are rounded [stochastically](burn_amp_kernels::optimizer::rounding): small
    /// updates are kept on average. For F16 parameters it keeps 4 bytes.
    ///
    /// An `AmpOptimizer` over Adam, AdamW or SGD does so; elsewhere this is [`F32`](Self::F32).
    Stochastic,
    /// Keeps none: each step starts from and ends at the rounded parameter, and small updates are lost. This is preset
    /// `o3` in its strict sense.
    None,
}

impl Masters {
    /// The form in which an optimizer that steps one parameter after the other keeps them.
    pub fn one_by_one(self) -> Self {
        match self {
            Self::Stochastic => Self::F32,
            Self::Bits24 => Self::Split,
            Self::F32 | Self::Split | Self::None => self,
        }
    }

    /// The dtype of the offset from a BF16 parameter as which a master is kept, if it is.
    pub(super) fn offset(self) -> Option<IntDType> {
        match self {
            Self::Split => Some(IntDType::I16),
            Self::Bits24 => Some(IntDType::I8),
            Self::F32 | Self::Stochastic | Self::None => None,
        }
    }
}
