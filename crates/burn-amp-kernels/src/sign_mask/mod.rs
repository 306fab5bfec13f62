//! Sign masks: which elements of a tensor are 0 or less, in one bit per element.
//!
//! The backward passes of a dropout and of a ReLU need nothing else of their operands. A ReLU in low precision keeps its
//! output instead, which the next op keeps too.
//! [`AmpBackend::not_positive`](crate::AmpBackend::not_positive) makes the mask,
//! [`AmpBackend::zeroed`](crate::AmpBackend::zeroed) applies it to a gradient. Where the backend has a kernel for them,
//! a mask takes 1/16 of the bytes of a BF16 tensor; otherwise it is a bool tensor.
//!
//! NaN is not 0 or less: a gradient passes where Burn's `relu` lets it pass.

#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

#[cfg(feature = "flex")]
pub(crate) use host::{not_positive as not_positive_on_host, zeroed as zeroed_on_host};
#[cfg(feature = "cubecl")]
pub(crate) use kernel::{not_positive, zeroed};

pub(crate) use node::{mul, relu};
pub use reference::{reference, reference_zeroed};

use burn_backend::{
    Backend,
    tensor::{BoolTensor, IntTensor},
};

/// The elements of a tensor that are 0 or less.
#[derive(Clone, Debug)]
pub enum SignMask<B: Backend> {
    /// One bit per element: bit `i % 32` of word `i / 32` is 1 if element `i`, in row-major order, is 0 or less.
    Bits(IntTensor<B>),
    /// One bool per element.
    Bools(BoolTensor<B>),
}

/// The number of words that hold one bit for each of `elements` elements.
#[cfg(any(feature = "flex", feature = "cubecl", feature = "fusion"))]
pub(crate) fn words(elements: usize) -> usize {
    elements.div_ceil(32)
}
