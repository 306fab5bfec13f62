//! GELU that reads and writes the operand's dtype and computes in F32.
//!
//! [`Kernels::gelu_in_f32`](crate::Kernels::gelu_in_f32) is Burn's `gelu` between casts, and its backward pass Burn's `gelu_backward`: elementwise ops, which
//! Fusion makes one kernel of. What it is for is `Autodiff`, where it saves the operand as it is stored and not in F32.

mod reference;

pub use reference::{reference, reference_backward};
