//! The sum of the squares of many gradients, from which their global norm follows.
//!
//! [`AmpBackend::sum_of_squares`](crate::AmpBackend::sum_of_squares) takes a list of tensors of any float dtypes, shapes
//! and layouts with a factor for each, and returns one F32 number, as `[1]`: the sum of the squares of all elements
//! times their factors. Each tensor is read once. The kernel adds in F32, in an order that depends on the shapes and the
//! layouts alone, so the sum has the same bits every time.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::sum_of_squares;
pub use reference::reference;

use burn_backend::{Backend, tensor::FloatTensor};

/// Gradients with their factors, all on one device.
#[derive(Clone, Debug)]
pub struct Squares<B: Backend> {
    /// The tensors, each with a factor that the host knows. There is at least one.
    pub tensors: Vec<(FloatTensor<B>, f32)>,
    /// The states of the loss scale before and after the backward pass of all tensors, which are divided by its scale; see
    /// [`loss_scale`](crate::loss_scale). If the pass overflowed, the sum is 0.
    pub scaled_by: Option<[FloatTensor<B>; 2]>,
}
