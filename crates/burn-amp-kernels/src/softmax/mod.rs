//! Softmax in mixed precision: reads and writes the operand's dtype, computes in F32.
//!
//! [`AmpBackend::mixed_softmax`](crate::AmpBackend::mixed_softmax): `exp(x - max) / sum(exp(x - max))` along `dim`, for any
//! shape, in the dtype of `x`. A row whose elements are all -inf gives NaN, as in Burn. The backward pass needs only
//! the output `y`:
//!
//! ```text
//! dx = y (g - sum(g y) / sum(y))
//! ```
//!
//! As it is stored, `y` is rounded and its sum is not quite 1. Without the division, what all elements of `g` have in
//! common would not cancel: it would leave its product with the error of the sum, which is larger than the gradient
//! where the scores matter little, as those of attention to positions that are nearly alike.
//!
//! [`AmpBackend::scaled_masked_softmax`](crate::AmpBackend::scaled_masked_softmax) multiplies `x` by a factor and masks it
//! on the way, as attention does: without another pass over the scores, and without rounding them in between. Its
//! gradient is `dx` times the factor, and 0 where the mask is.
//!
//! The kernels compute along the last dimension. Another dimension is swapped with the last one first, which costs a
//! copy of each operand. A team of units works on one row at a time and keeps it in registers, up to 16384 elements. A
//! longer row is read again for the maximum, the sum and the output.
//!
//! Buffers: operands are read in place if their rows are equally far apart (padded, sliced or expanded), and from a
//! contiguous copy otherwise; the output is new and contiguous. F64 tensors use the reference. Empty tensors launch
//! nothing.
//!
//! Bytes per element in F16 or BF16; the last column is the reference, op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 44 |
//! | backward | 4 | 2 | 54 |

#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod mask_rows;
mod node;
mod reference;
mod scale_mask;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{softmax, softmax_backward};
pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};
pub use scale_mask::{Mask, ScaleMask};
