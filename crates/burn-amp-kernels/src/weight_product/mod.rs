//! Products with weights in low precision, whose gradient is F32.
//!
//! [`AmpBackend::weight_product`](crate::AmpBackend::weight_product) is `x weight` of matrices in low precision, where
//! `weight` was cast from an F32 parameter. On Burn's `Autodiff` it is one node. The gradient of the weights is `xᵀ g`, a
//! sum over all rows of a batch, and goes to the F32 parameter. [`AmpBackend::wide_matmul`](crate::AmpBackend::wide_matmul)
//! writes it in F32: the kernels of CubeCL, which add in F32, do so without rounding it first, and without a cast of the
//! size of the weights.

mod node;
mod reference;

pub(crate) use node::recorded;
pub use reference::reference_matmul;
