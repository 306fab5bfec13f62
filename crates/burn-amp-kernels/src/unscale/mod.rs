//! Unscaling: many tensors times one factor, in F32.
//!
//! [`AmpBackend::unscale`](crate::AmpBackend::unscale) takes a list of tensors of any float dtypes and layouts, and a factor.
//! It returns `tensor × factor` for each of them, in F32 (F64 for F64), and as the last tensor the flags of the [finite
//! check](crate::finite) of the operands. Each tensor is read once and written once; Burn's ops would cast it, multiply
//! it, and read it again for the flag.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::unscale;

pub use reference::reference;
