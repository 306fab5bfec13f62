//! Results that are stored in low precision, with their F32 values within reach.
//!
//! In BF16 a sigmoid is 1 from a logit of 6.3 on, and a softmax of small probabilities loses most of their digits. That
//! does no harm to a matrix product or a gate, but a logarithm, a difference or a sum of such values needs them in F32. So
//! the result remembers its operand, and whoever needs F32 gets the op computed in F32, not the rounded result widened.
//!
//! So does the concatenation of tensors in low precision and in F32, such as an upsampled image and the output of a norm in
//! a U-Net: a convolution reads it in low precision, and what F32 the parts have is there for any other op.

use std::sync::OnceLock;

use burn_amp_core::Precision;
use burn_amp_kernels::{self as kernels, AmpBackend, activation::Activation, softmax::ScaleMask};
use burn_backend::{
    BackendTypes, FloatDType, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use super::{AmpTensor, Nature, Reader};
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

/// What a result that is stored in low precision was computed from.
enum Source<B: AmpBackend, G: Graph<B>> {
    /// A saturating op, of its operand.
    Saturating(Saturating<BoolTensor<B>>, FloatTensor<G::Inner>),
    /// A concatenation in a dimension.
    Cat(Vec<AmpTensor<B, G>>, usize),
}

/// The operands of an op whose result is stored in low precision.
pub(crate) struct Rounded<B: AmpBackend, G: Graph<B>> {
    source: Source<B, G>,
    /// The result in F32, computed when it is first needed.
    exact: OnceLock<FloatTensor<G::Inner>>,
}

impl<B: AmpBackend, G: Graph<B>> Rounded<B, G> {
    pub(crate) fn saturating(op: Saturating<BoolTensor<B>>, x: FloatTensor<G::Inner>) -> Self {
        Self::of(Source::Saturating(op, x))
    }

    pub(crate) fn cat(parts: Vec<AmpTensor<B, G>>, dim: usize) -> Self {
        Self::of(Source::Cat(parts, dim))
    }

    fn of(source: Source<B, G>) -> Self {
        Self {
            source,
            exact: OnceLock::new(),
        }
    }

    /// Whether all values are between -1 and 1.
    pub(crate) fn is_bounded(&self) -> bool {
        match &self.source {
            Source::Saturating(..) => true,
            Source::Cat(..) => false,
        }
    }

    /// The result in F32. All clones of the tensor share it, as they share the result itself.
    pub(super) fn exact(&self) -> FloatTensor<G::Inner> {
        let compute = || match &self.source {
            Source::Saturating(op, x) => saturated::<B, G>(op.clone(), x.clone()),
            Source::Cat(parts, dim) => {
                let parts = parts.iter().cloned().map(|part| {
                    let reader = Reader::alone(&part);
                    part.read(Precision::F32, reader)
                });
                kernels::cat::cat::<G::Inner>(parts.collect(), *dim)
            }
        };
        self.exact.get_or_init(compute).clone()
    }
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Whether the tensor is a concatenation that remembers its parts.
    pub(crate) fn remembers_parts(&self) -> bool {
        match &self.nature {
            Nature::Rounded(rounded) => matches!(rounded.source, Source::Cat(..)),
            _ => false,
        }
    }
}

/// The F32 result of a saturating op.
fn saturated<B: AmpBackend, G: Graph<B>>(
    op: Saturating<BoolTensor<B>>,
    x: FloatTensor<G::Inner>,
) -> FloatTensor<G::Inner> {
    let recomputes = x.shape().num_elements() >= worth_waiting();
    let x = match op {
        Saturating::Softmax { .. } => G::cast(x, &Recorded::nothing(), Precision::F32, recomputes),
        Saturating::Activation(_) => x,
    };
    if recomputes {
        op.in_f32::<G::Recomputed>(x)
    } else {
        op.in_f32::<G::Inner>(x)
    }
}
