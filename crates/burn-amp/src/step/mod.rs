//! One training step: the loss is scaled, the gradients are checked and unscaled, and the training loop does not notice.
//!
//! ```text
//! backward:     loss in F32 × scale → Burn's backward pass → one flag per leaf gradient → one read → the scale moves
//! grad_remove:  gradient in F32 × 1/scale, or nothing after an overflow
//! ```
//!
//! * [`backward`]: `AutodiffBackend` for [`Amp`](crate::Amp), the entry to all of it
//! * [`on_host`] and [`on_device`]: a scaled backward pass that waits for its outcome, and one that does not
//! * [`finite`]: the check of the gradients
//! * [`gradients`]: the gradients of a pass, unscaled when they are taken out

mod backward;
mod finite;
mod gradients;
mod on_device;
mod on_host;

use burn_amp_core::Dtype;
use burn_backend::{Backend, tensor::FloatTensor};

use crate::dtype;

pub use gradients::Gradients;

/// `tensor × factor` in F32, because F16 holds neither 65536 nor its reciprocal; F64 stays F64.
pub(crate) fn times<B: Backend>(tensor: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    let tensor = match dtype::of(&tensor) {
        low @ (Dtype::F16 | Dtype::BF16) => dtype::cast::<B>(tensor, low.join(Dtype::F32)),
        Dtype::F64 | Dtype::F32 | Dtype::Flex32 => tensor,
    };
    if factor == 1.0 {
        tensor
    } else {
        B::float_mul_scalar(tensor, factor.into())
    }
}
