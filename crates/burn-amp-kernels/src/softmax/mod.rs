//! Softmax that reads and writes the operand's dtype and computes in F32.
//!
//! [`Kernels::softmax_in_f32`](crate::Kernels::softmax_in_f32): `exp(x - max) / sum(exp(x - max))` along `dim`, of any shape, in the dtype of
//! `x`. A row of which all elements are -inf is NaN, as in Burn. The backward pass needs the output only:
//!
//! ```text
//! dx = y (g - sum(g y))
//! ```
//!
//! The kernels compute along the last dimension; another one is swapped with it, which costs a copy of each operand. A
//! team of units has a row at a time and keeps it in registers, up to 16384 elements; longer rows it reads again for the
//! maximum, the sum and the output. Buffers: operands as they are if their rows are equally far apart (padded, sliced,
//! expanded), or else a contiguous copy; a new contiguous output. Tensors with F64 go to the reference, empty ones nowhere.
//!
//! Bytes per element in F16 or BF16, and those of the reference op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 44 |
//! | backward | 4 | 2 | 54 |

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{softmax, softmax_backward};
pub use reference::{reference, reference_backward};
