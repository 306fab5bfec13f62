//! Many tensors times one factor, in F32.
//!
//! [`Kernels::unscale`](crate::Kernels::unscale): a list of tensors of any float dtypes and layouts, and a factor. The result is `tensor × factor`
//! in F32 for each of them (F64 for F64), and as the last tensor the flags of [`finite`](crate::finite), of the tensors as they
//! came. A tensor is read once and written once; by Burn's ops it is cast, multiplied, and read again for the flag.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::unscale;

pub use reference::reference;
