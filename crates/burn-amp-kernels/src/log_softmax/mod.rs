//! Log-softmax that reads the operand's dtype and computes in F32.
//!
//! [`Kernels::log_softmax_in_f32`](crate::Kernels::log_softmax_in_f32): `x - log(sum(exp(x)))` along `dim`, of any shape, in the dtype that is asked for.
//! The backward pass needs the input and one F32 number per row, so probabilities are computed from the input as it was and
//! not from a rounded output:
//!
//! ```text
//! dx = g - exp(x - log_sum_exp) sum(g)
//! ```
//!
//! The kernels go over rows as those of [`softmax`](crate::softmax) do, and beside the output there is a new F32 number per
//! row, of no defined value if rows have no elements. Bytes per element with an F16 or BF16 input and an F32 output, and
//! those of the reference op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 4 | 38 |
//! | backward | 6 | 2 | 52 |

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

use burn_backend::{Backend, tensor::FloatTensor};

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{log_softmax, log_softmax_backward};
pub use reference::{reference, reference_backward};

/// The result of log-softmax and what its backward pass needs beside the input.
#[derive(Debug)]
pub struct LogSoftmax<B: Backend> {
    /// The shape of the input, in the dtype that was asked for.
    pub output: FloatTensor<B>,
    /// The shape of the input with 1 at `dim`, F32.
    pub log_sum_exp: FloatTensor<B>,
}
