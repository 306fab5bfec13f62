//! Cross entropy: the log-probability of one target per row, and its gradient.
//!
//! A cross entropy computes a log-softmax and reads one element of each row. Its gradient with respect to the logits
//! follows from that row alone. Burn's ops build it in two steps: first an F32 tensor of zeros with one number set per
//! row, then the backward pass of log-softmax, which reads that tensor. The kernel does without the tensor.
//!
//! * [`AmpBackend::log_softmax_at`](crate::AmpBackend::log_softmax_at): `output[target]`, where `output` is the log-softmax of
//!   `x`. The targets have the shape of `x` with 1 as the last dimension. `x[target] - log_sum_exp` would lose digits
//!   where all logits are large: near 10^4, F32 numbers are 10^-3 apart.
//! * [`AmpBackend::log_softmax_at_backward`](crate::AmpBackend::log_softmax_at_backward):
//!   `dx = g (one_hot(target) - exp(x - log_sum_exp))` in the dtype of `x`, which is read once; `dx` is written once.

#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::log_softmax_at_backward;
pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};
