//! One training step: the loss is scaled, the gradients are checked and unscaled, and the training loop does not notice.
//!
//! ```text
//! backward:     loss in F32 × scale → Burn's backward pass → one flag per leaf gradient → one read → the scale moves
//! grad_remove:  gradient in F32 × 1/scale, or nothing after an overflow
//! ```
//!
//! * [`backward`]: `AutodiffBackend` for [`Amp`](crate::Amp), the entry to all of it
//! * [`on_host`] and [`on_device`]: a scaled backward pass that waits for its outcome, and one that does not
//! * [`scaled`]: Burn's backward pass over a scaled loss
//! * [`finite`]: the check of the gradients
//! * [`gradients`]: the gradients of a pass, unscaled when they are taken out

mod backward;
mod finite;
mod gradients;
mod on_device;
mod on_host;
mod scaled;

pub use gradients::Gradients;
pub(crate) use scaled::times;
