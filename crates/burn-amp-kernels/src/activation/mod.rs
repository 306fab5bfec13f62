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
//! On Burn's `Autodiff` an activation is one node, which keeps the operand as it is stored. The kernel's slope of GELU is that
//! of GELU itself; Burn's `gelu_backward` differentiates the approximation by tanh on backends without an op of their own.

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
