//! The product of two tensors in low precision, in F32.
//!
//! [`AmpBackend::mixed_product`](crate::AmpBackend::mixed_product) multiplies in F32 (F64 for F64) and does not round the
//! result. In F16 a product overflows where both operands are above 256. On Burn's `Autodiff` it is one node, which saves
//! its operands as they are stored, and rounds their gradients once. It has no kernel of its own: it is elementwise, and
//! Fusion makes one kernel of it.

mod node;
mod reference;

pub(crate) use node::recorded;
pub use reference::reference;
