//! The format in which an optimizer keeps its moments.

use burn_amp_kernels::optimizer::MomentFormat;

/// The format in which Adam, AdamW and SGD keep their moments inside an `AmpOptimizer`.
///
/// Other optimizers keep theirs as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moments {
    /// In F32: 4 bytes per element and moment.
    #[default]
    F32,
    /// In BF16, rounded [stochastically](burn_amp_kernels::optimizer::rounding): 2 bytes per element and moment.
    ///
    /// Rounded to the nearest, a moment could not move by less than 1/256 of itself, and the second moment of Adam moves
    /// by 1/1000. Stochastic rounding is right on average. It draws the same numbers in a run that is resumed.
    ///
    /// The parameters of norms and embeddings, and those of fewer than 4096 elements, keep F32: they are small, or their
    /// rows are stepped rarely.
    Bf16,
    /// In [blocks of 8 bits](burn_amp_kernels::optimizer::blocks), rounded stochastically: 1 byte per element and moment,
    /// and 4 for each block of 128.
    ///
    /// The same parameters as with [`Bf16`](Self::Bf16) keep F32.
    Bits8,
}

/// The number of elements below which a parameter keeps F32, as a share of a model too small to matter.
const SMALL: usize = 4096;

impl Moments {
    /// Returns the format of the moments of a parameter with `elements` elements. `keeps_more` says whether it is one of
    /// a norm or an embedding.
    pub fn format(self, elements: usize, keeps_more: bool) -> MomentFormat {
        if elements < SMALL || keeps_more {
            return MomentFormat::Wide;
        }
        match self {
            Self::F32 => MomentFormat::Wide,
            Self::Bf16 => MomentFormat::Bf16,
            Self::Bits8 => MomentFormat::Bits8,
        }
    }
}
