//! Products with weights in low precision, whose gradient is F32.
//!
//! [`AmpBackend::weight_product`](crate::AmpBackend::weight_product) is `x weight + bias` of matrices in low precision, where
//! `weight` was cast from an F32 parameter, and `bias` is F32. On Burn's `Autodiff` it is one node. The gradient of the
//! weights is `xᵀ g`, that of the bias the sum of the rows of `g`; both are sums over all rows of a batch, and go to F32
//! parameters. [`AmpBackend::wide_matmul`](crate::AmpBackend::wide_matmul) and
//! [`AmpBackend::column_sums`](crate::AmpBackend::column_sums) write them in F32: the kernels, which add in F32, do so
//! without rounding them first, and without casts of the size of the parameters.
//!
//! Columns of up to 16384 rows, or 4096 where a cube has 256 units, are added in one launch: a unit adds some of the rows of
//! one vector of columns, and the units of a cube then add up their sums. Longer columns are added as those of
//! [`affine`](crate::affine), in two launches. No atomics are used, so the order of additions depends on the shape alone.
//!
//! The gradients of a weight that is used several times in a pass, as in a recurrent net, are computed
//! [`together`], from copies of the operands of up to 16 uses below one another.

mod deferred;
#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

pub use deferred::{Deferred, Operands, is_worth_deferring, together};
#[cfg(feature = "cubecl")]
pub(crate) use kernel::column_sums;
pub(crate) use node::recorded;
pub use reference::{reference, reference_matmul, reference_sums};
