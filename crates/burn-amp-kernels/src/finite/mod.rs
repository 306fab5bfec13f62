//! Which of many tensors have an element that is inf or NaN.
//!
//! [`Kernels::not_finite`](crate::Kernels::not_finite): a list of tensors of any float dtypes, shapes and layouts to an F32
//! tensor of one flag each: 1 if the tensor has an element that is not finite, 0 if all are finite or there are none. Each
//! tensor is read once, nothing is written but the flags, and one launch takes several tensors.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{EXPONENT, not_finite, worst_exponent};

pub use reference::reference;
