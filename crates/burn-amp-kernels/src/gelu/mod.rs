//! GELU in mixed precision: reads and writes the operand's dtype, computes in F32.
//!
//! [`AmpBackend::mixed_gelu`](crate::AmpBackend::mixed_gelu) is Burn's `gelu` between casts, and its backward pass is Burn's
//! `gelu_backward`. It has no kernel of its own: both are elementwise, and Fusion makes one kernel of them. It is here
//! for `Autodiff`, which saves the operand as it is stored instead of in F32.

mod node;
mod reference;

pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};
