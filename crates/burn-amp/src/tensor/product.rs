//! Products in F16, with their F32 values within reach.
//!
//! A product of two F16 numbers above 256 is inf. Where it is stored, that is the price of F16. But a dot product, which
//! Burn composes of a product and a sum, and so a cosine similarity, is far from overflowing. So a product in F16
//! remembers its operands, and whoever reads it in F32 gets the product computed in F32.

use std::sync::OnceLock;

use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::tensor::FloatTensor;

use crate::graph::Graph;

/// The operands of a product that is stored in F16.
pub(crate) struct Product<B: AmpBackend, G: Graph<B>> {
    lhs: FloatTensor<G::Inner>,
    rhs: FloatTensor<G::Inner>,
    /// The product in F32, computed when it is first needed.
    in_f32: OnceLock<FloatTensor<G::Inner>>,
}

impl<B: AmpBackend, G: Graph<B>> Product<B, G> {
    pub(crate) fn new(lhs: FloatTensor<G::Inner>, rhs: FloatTensor<G::Inner>) -> Self {
        Self {
            lhs,
            rhs,
            in_f32: OnceLock::new(),
        }
    }

    /// The product in F32. All clones of the tensor share it.
    pub(super) fn in_f32(&self) -> FloatTensor<G::Inner> {
        let compute = || kernels::product::forward::<G::Inner>(self.lhs.clone(), self.rhs.clone());
        self.in_f32.get_or_init(compute).clone()
    }
}
