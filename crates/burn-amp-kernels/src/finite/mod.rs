//! The finite check: which of many tensors have an element that is inf or NaN.
//!
//! [`AmpBackend::not_finite`](crate::AmpBackend::not_finite) takes a list of tensors of any float dtypes, shapes and layouts,
//! and returns an F32 tensor with one flag for each: 1 if the tensor has an element that is not finite, 0 if all
//! elements are finite or there are none. Each tensor is read once, only the flags are written, and one launch takes
//! several tensors.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{EXPONENT, not_finite, worst_exponent};

pub use reference::reference;
