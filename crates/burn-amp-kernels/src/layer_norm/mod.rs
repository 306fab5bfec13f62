//! Layer normalization over the last dimension that reads and writes the operand's dtype and computes in F32.
//!
//! [`Kernels::layer_norm_in_f32`](crate::Kernels::layer_norm_in_f32): `x̂ γ + β` with `x̂ = (x - mean(x)) / sqrt(var(x) + ε)` and the biased variance, as
//! Burn's `layer_norm`; the output has the dtype of `x`. The backward pass needs the input and two F32 numbers per row:
//!
//! ```text
//! dx̂ = g γ      dx = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(var + ε)      dγ = Σ g x̂      dβ = Σ g
//! ```
//!
//! The kernels go over rows as those of [`softmax`](crate::softmax) do; the variance is that of the centered elements, which are
//! in registers. The backward kernel computes all gradients from one read of x and g: a team has many rows, one after the
//! other, and keeps its sums for γ and β in registers too. It writes them to `[teams, n]` in F32, and a second kernel sums
//! over teams, in an order that depends on nothing but the shape: no atomics. Rows of more than 8192 elements (of fewer where a
//! cube has less than 512 units) leave no room for that and go to the reference.
//!
//! Bytes per element in F16 or BF16, and those of the reference op by op, without Fusion. A team has four rows at least,
//! so its sums are up to 2 bytes per element, written and read:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 64 |
//! | backward | 4 to 6 | 2 to 4 | 118 |

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

use burn_backend::{Backend, tensor::FloatTensor};

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{layer_norm, layer_norm_backward};
pub use reference::{reference, reference_backward};

/// The result of a layer norm and what its backward pass needs beside its operands.
#[derive(Debug)]
pub struct LayerNorm<B: Backend> {
    /// The shape and dtype of `x`.
    pub output: FloatTensor<B>,
    /// The mean of each row, `[…, 1]`, F32.
    pub mean: FloatTensor<B>,
    /// `1 / sqrt(var + ε)` of each row, `[…, 1]`, F32.
    pub inverse_std: FloatTensor<B>,
}

/// The gradients of a layer norm.
#[derive(Debug)]
pub struct LayerNormGradients<B: Backend> {
    /// The shape and dtype of `x`.
    pub x: FloatTensor<B>,
    /// `[n]`, F32.
    pub gamma: FloatTensor<B>,
    /// `[n]`, F32.
    pub beta: FloatTensor<B>,
}
