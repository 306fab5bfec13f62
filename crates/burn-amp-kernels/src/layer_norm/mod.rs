//! Layer normalization in mixed precision: reads and writes the operand's dtype, computes in F32.
//!
//! [`AmpBackend::mixed_layer_norm`](crate::AmpBackend::mixed_layer_norm): `x̂ γ + β` over the last dimension, with
//! `x̂ = (x - mean(x)) / sqrt(var(x) + ε)` and the biased variance, as in Burn's `layer_norm`. The output has the dtype
//! of `x`; where that is F32, products read a copy in low precision, which the same kernel writes. The backward pass needs
//! the input and two F32 numbers per row:
//!
//! ```text
//! dx̂ = g γ      dx = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(var + ε)      dγ = Σ g x̂      dβ = Σ g
//! ```
//!
//! The kernels treat rows as those of [`softmax`](crate::softmax) do. The variance is that of the centered elements,
//! which are in registers. The backward kernel computes all gradients from one read of x and g: a team of units works
//! on many rows, one after the other, and keeps its sums for γ and β in registers too. It writes the sums
//! to `[teams, n]` in F32, and a second kernel adds those of all teams. No atomics are used, so the order of additions
//! depends on the shape alone and results are reproducible. Rows of more than 8192 elements (fewer where a cube has
//! less than 512 units) do not leave enough registers for the sums, and use the reference.
//!
//! Bytes per element in F16 or BF16; the last column is the reference, op by op, without Fusion. A team has at least
//! four rows, so its sums add at most 2 bytes per element, which are written and read:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 64 |
//! | backward | 4 to 6 | 2 to 4 | 118 |

#[cfg(feature = "cubecl")]
mod backward_kernel;
#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

use burn_backend::{Backend, tensor::FloatTensor};

pub(crate) use node::{Recorded, recorded};
pub use reference::{reference, reference_backward};
#[cfg(feature = "cubecl")]
pub(crate) use {backward_kernel::layer_norm_backward, kernel::layer_norm};

/// The output of a layer norm, and what the backward pass needs in addition to the operands.
#[derive(Debug)]
pub struct LayerNorm<B: Backend> {
    /// Has the shape and dtype of `x`.
    pub output: FloatTensor<B>,
    /// The output in the dtype that was asked for.
    pub copy: Option<FloatTensor<B>>,
    /// The mean of each row, `[…, 1]`, F32.
    pub mean: FloatTensor<B>,
    /// `1 / sqrt(var + ε)` of each row, `[…, 1]`, F32.
    pub inverse_std: FloatTensor<B>,
}

/// The gradients of a layer norm.
#[derive(Debug)]
pub struct LayerNormGradients<B: Backend> {
    /// Has the shape and dtype of `x`.
    pub x: FloatTensor<B>,
    /// `[n]`, F32.
    pub gamma: FloatTensor<B>,
    /// `[n]`, F32.
    pub beta: FloatTensor<B>,
}
