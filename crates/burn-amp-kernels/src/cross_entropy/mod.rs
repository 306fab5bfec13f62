//! One log-probability per row, and its gradient, without a tensor of the gradients of all of them.
//!
//! A cross entropy is a log-softmax of which one element per row is read. Its gradient with respect to the logits is known row by
//! row; by the ops one at a time it is built as a tensor of zeros with one number per row, in F32, that log-softmax's backward
//! pass then reads.
//!
//! * [`Kernels::log_softmax_at`](crate::Kernels::log_softmax_at): `x[target] - log_sum_exp` in F32, for targets of the shape of `x` with 1 at the
//!   last dimension.
//! * [`Kernels::log_softmax_at_backward`](crate::Kernels::log_softmax_at_backward): `dx = g (one_hot(target) - exp(x - log_sum_exp))` in the
//!   dtype of `x`, read once and written once.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::log_softmax_at_backward;
pub use reference::{reference, reference_backward};
