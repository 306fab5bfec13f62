//! Results that are stored in low precision, with their F32 values within reach.
//!
//! In BF16 a sigmoid is 1 from a logit of 6.3 on, and a softmax of small probabilities loses most of their digits. That
//! does no harm to a matrix product or a gate, but a logarithm, a difference or a sum of such values needs them in F32. So
//! the result remembers its operand, and whoever needs F32 gets the op computed in F32, not the rounded result widened.
//!
//! So does the concatenation of tensors in low precision and in F32, such as an upsampled image and the output of a norm in
//! a U-Net: a convolution reads it in low precision, and what F32 the parts have is there for any other op.

use burn_amp_core::Precision;
use burn_amp_kernels::{self as kernels, AmpBackend, activation::Activation, softmax::ScaleMask};
use burn_backend::{
    BackendTypes, FloatDType, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use crate::{
    graph::{Graph, Recorded},
    thresholds::worth_waiting,
};

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
            Self::Softmax { dim, before } => kernels::softmax::forward::<B>(x, dim, before),
            Self::Activation(activation) => {
                kernels::activation::forward::<B>(x, activation, FloatDType::F32)
            }
        }
    }
}

/// The F32 result of a saturating op.
pub(super) fn saturated<B: AmpBackend, G: Graph<B>>(
    op: Saturating<BoolTensor<B>>,
    x: FloatTensor<G::Inner>,
) -> FloatTensor<G::Inner> {
    let recomputes = x.shape().num_elements() >= worth_waiting();
    let x = match op {
        Saturating::Softmax { .. } => {
            G::cast(x, &Recorded::nothing(), false, Precision::F32, recomputes)
        }
        Saturating::Activation(_) => x,
    };
    if recomputes {
        op.in_f32::<G::Recomputed>(x)
    } else {
        op.in_f32::<G::Inner>(x)
    }
}
