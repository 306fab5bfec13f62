//! Log-softmax in mixed precision: reads the operand's dtype, computes in F32, writes the dtype that is asked for.
//!
//! [`AmpBackend::mixed_log_softmax`](crate::AmpBackend::mixed_log_softmax): `x - log(sum(exp(x)))` along `dim`, for any
//! shape. The backward pass needs the input and one F32 number per row. It computes probabilities from the input, not
//! from the output, which may be rounded:
//!
//! ```text
//! dx = g - exp(x - log_sum_exp) sum(g)
//! ```
//!
//! The kernels treat rows as those of [`softmax`](crate::softmax) do. In addition to the output they write one F32
//! number per row, which is undefined if rows have no elements. Bytes per element with an F16 or BF16 input and an F32
//! output; the last column is the reference, op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 4 | 38 |
//! | backward | 6 | 2 | 52 |

#[cfg(feature = "cubecl")]
mod kernel;
mod node;
mod reference;

use burn_backend::{Backend, tensor::FloatTensor};

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{log_softmax, log_softmax_backward};
pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};

/// The output of log-softmax, and what the backward pass needs in addition to the input.
#[derive(Debug)]
pub struct LogSoftmax<B: Backend> {
    /// Has the shape of the input and the dtype that was asked for.
    pub output: FloatTensor<B>,
    /// Has the shape of the input with 1 at `dim`; F32.
    pub log_sum_exp: FloatTensor<B>,
}
