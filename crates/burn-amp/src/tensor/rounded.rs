//! Results of saturating ops, stored in low precision with their F32 values within reach.
//!
//! In BF16 a sigmoid is 1 from a logit of 6.3 on, and a softmax of small probabilities loses most of their digits. That
//! does no harm to a matrix product or a gate, but a logarithm, a difference or a sum of such values needs them in F32. So
//! the result remembers its operand, and whoever needs F32 gets the op computed in F32, not the rounded result widened.

use std::sync::OnceLock;

use burn_amp_core::Precision;
use burn_amp_kernels::{AmpBackend, activation::Activation, softmax::ScaleMask};
use burn_backend::{
    BackendTypes, FloatDType, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use crate::graph::{Graph, Recorded, WORTH_RECOMPUTING};

/// An op whose results pile up at the ends of their range. `M` is the primitive of a bool tensor.
#[derive(Clone, Debug)]
pub(crate) enum Saturating<M> {
    Softmax { dim: usize, before: ScaleMask<M> },
    Activation(Activation),
}

impl<M> Saturating<M> {
    /// The result in F32. The operand of a softmax is F32, that of a function of each element is as it is stored.
    fn in_f32<B>(self, x: FloatTensor<B>) -> FloatTensor<B>
    where
        B: AmpBackend + BackendTypes<BoolTensorPrimitive = M>,
    {
        match self {
            Self::Softmax { dim, before } => B::scaled_masked_softmax(x, dim, before),
            Self::Activation(activation) => B::mixed_activation(x, activation, FloatDType::F32),
        }
    }
}

/// The operand of a saturating op whose result is stored in low precision.
pub(crate) struct Rounded<B: AmpBackend, G: Graph<B>> {
    op: Saturating<BoolTensor<B>>,
    x: FloatTensor<G::Inner>,
    /// The result in F32, computed when it is first needed.
    exact: OnceLock<FloatTensor<G::Inner>>,
}

impl<B: AmpBackend, G: Graph<B>> Rounded<B, G> {
    pub(crate) fn new(op: Saturating<BoolTensor<B>>, x: FloatTensor<G::Inner>) -> Self {
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
            let x = match self.op {
                Saturating::Softmax { .. } => {
                    let nothing = Recorded::nothing();
                    G::cast(self.x.clone(), &nothing, Precision::F32, recomputes)
                }
                Saturating::Activation(_) => self.x.clone(),
            };
            if recomputes {
                self.op.clone().in_f32::<G::Recomputed>(x)
            } else {
                self.op.clone().in_f32::<G::Inner>(x)
            }
        };
        self.exact.get_or_init(compute).clone()
    }
}
