//! Results of saturating ops, stored in low precision with their F32 values within reach.
//!
//! In BF16 a sigmoid is 1 from a logit of 6.3 on, and a softmax of small probabilities loses most of their digits. That
//! does no harm to a matrix product or a gate, but a logarithm, a difference or a sum of such values needs them in F32. So
//! the result remembers its operand, and whoever needs F32 gets the op computed in F32, not the rounded result widened.

use std::sync::OnceLock;

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_backend::{TensorMetadata, tensor::FloatTensor};

use crate::graph::{Graph, Recorded, WORTH_RECOMPUTING};

/// An op whose results pile up at the ends of their range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saturating {
    Softmax { dim: usize },
    Sigmoid,
    Tanh,
}

impl Saturating {
    fn apply<B: AmpBackend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::Softmax { dim } => B::mixed_softmax(x, dim),
            Self::Sigmoid => B::sigmoid(x),
            Self::Tanh => B::float_tanh(x),
        }
    }
}

/// The operand of a saturating op whose result is stored in low precision.
pub(crate) struct Rounded<B: AmpBackend, G: Graph<B>> {
    op: Saturating,
    x: FloatTensor<G::Inner>,
    /// The result in F32, computed when it is first needed.
    exact: OnceLock<FloatTensor<G::Inner>>,
}

impl<B: AmpBackend, G: Graph<B>> Rounded<B, G> {
    pub(crate) fn new(op: Saturating, x: FloatTensor<G::Inner>) -> Self {
        Self {
            op,
            x,
            exact: OnceLock::new(),
        }
    }

    /// The result in F32. All clones of the tensor share it, as they share the result itself.
    pub(crate) fn exact(&self) -> FloatTensor<G::Inner> {
        let compute = || {
            let recomputes = self.x.shape().num_elements() >= WORTH_RECOMPUTING;
            let nothing = Recorded::nothing();
            let x = G::cast(self.x.clone(), &nothing, Precision::F32, recomputes);
            if recomputes {
                self.op.apply::<G::Recomputed>(x)
            } else {
                self.op.apply::<G::Inner>(x)
            }
        };
        self.exact.get_or_init(compute).clone()
    }
}
