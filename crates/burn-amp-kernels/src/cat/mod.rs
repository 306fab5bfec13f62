//! Concatenation in one launch.
//!
//! Burn's CubeCL backends copy each part of a concatenation by a launch of its own, and cut the gradient into its parts in
//! the same way. A net that puts tens of embeddings side by side spends more time on launches than on these copies.
//!
//! [`AmpBackend::cat`](crate::AmpBackend::cat) reads up to 16 parts per launch, and
//! [`AmpBackend::split`](crate::AmpBackend::split), its inverse, writes as many. All parts have one dtype, any, and the same
//! sizes but in the dimension in which they are put side by side. The result keeps the order in memory of the largest part,
//! such as channels last. On Burn's `Autodiff` it is one node, which saves nothing.

#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{cat, split};
pub(crate) use node::recorded;
pub use reference::{reference, reference_split};
