//! Activation functions in mixed precision: they read the operand as it is stored, compute in F32, and round once.
//!
//! | op | computes | dtype |
//! |---|---|---|
//! | [`mixed_activation`](AmpBackend::mixed_activation) | the function | any that is asked for |
//! | [`mixed_activation_backward`](AmpBackend::mixed_activation_backward) | its slope at `x` times the gradient | of `x` |
//!
//! The references are Burn's ops between casts. On a GPU these are up to 19 kernels, as Burn composes a sigmoid or a GELU of
//! elementwise ops; here one kernel reads and writes each element once. Fusion keeps the references, of which it makes one
//! kernel with their neighbours.
//!
//! On Burn's `Autodiff` an activation is one node, which keeps the operand as it is stored. The slopes of saturated units
//! are as exact in the kernels as the operand is: they come from `exp(-|x|)`, not from the difference of a rounded output
//! and 1. The slope of GELU is that of GELU itself; where a backend has no such op, Burn's `gelu_backward` is that of the
//! approximation by tanh.

#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{activation, activation_backward};
pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};

#[cfg(doc)]
use crate::AmpBackend;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x · Φ(x)`, where Φ is the normal distribution's cumulative distribution function.
    Gelu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
}
