//! The form in which an optimizer keeps its F32 masters.

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
    /// Keeps none for BF16 parameters, which are rounded [stochastically](burn_amp_kernels::optimizer::rounding): small
    /// updates are kept on average. For F16 parameters it keeps 4 bytes.
    ///
    /// An `AmpOptimizer` over Adam, AdamW or SGD does so; elsewhere this is [`F32`](Self::F32).
    Stochastic,
    /// Keeps none: each step starts from and ends at the rounded parameter, and small updates are lost. This is preset
    /// `o3` in its strict sense.
    None,
}
