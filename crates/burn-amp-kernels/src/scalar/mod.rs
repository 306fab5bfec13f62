//! Ops of a tensor and a scalar in mixed precision: they read and write the operand's dtype, and compute in F32.
//!
//! [`AmpBackend::mixed_scalar`](crate::AmpBackend::mixed_scalar) computes `x op scalar` in F32 (F64 for F64) and rounds the
//! result once, to the dtype of `x`. Burn's own ops round the scalar to that dtype first: in BF16 they multiply by 0.9883
//! instead of 0.99. The kernel reads and writes each element once, in any layout. Empty tensors launch nothing.
//!
//! On Burn's `Autodiff` each op is one node, which saves no tensor, or the signs of `x` for a leaky ReLU. The backward
//! pass computes in F32 too, and rounds the gradient once.

#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::scalar;
pub(crate) use node::recorded;
pub use reference::reference;

/// An op of a tensor and a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// `x + scalar`
    Add,
    /// `x - scalar`
    Sub,
    /// `x * scalar`
    Mul,
    /// `x / scalar`
    Div,
    /// `x * scalar` where `x < 0`, else `x`
    LeakyRelu,
}
