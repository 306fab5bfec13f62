//! One training step: the loss is scaled, and the gradients are checked and unscaled, without a change to the training
//! loop.
//!
//! ```text
//! backward:     loss in F32 × scale → Burn's backward pass → one flag per parameter's gradient → one read → next scale
//! grad_remove:  gradient in F32 × 1/scale, or nothing after an overflow
//! ```
//!
//! * [`backward`]: `AutodiffBackend` for [`Amp`](crate::Amp), the entry point
//! * [`on_host`] and [`on_device`]: a scaled backward pass that waits for its outcome, and one that does not
//! * [`scaled`]: Burn's backward pass over a scaled loss
//! * [`finite`]: the check of the gradients
//! * [`flushed`]: a look, now and then, at what F16 flushes to zero
//! * [`located`]: the op with which an overflow began
//! * [`recorded`]: such a step in a file, which is run again
//! * [`gradients`]: the gradients of a pass, unscaled when they are taken out

mod backward;
mod finite;
mod flushed;
mod gradients;
mod located;
mod on_device;
mod on_host;
mod recorded;
mod scaled;

pub use gradients::Gradients;
