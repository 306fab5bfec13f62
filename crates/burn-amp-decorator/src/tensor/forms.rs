//! The forms of a value: in low precision, and in F32.
//!
//! A plain tensor has one form, and a cast makes the other. Any other value is stored in one form together with the
//! [`Recipe`] for those that a cast would not give, or that have not been computed. Each is made once, for all clones of
//! the tensor.

use std::sync::OnceLock;

use burn_amp_core::Precision;
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::{
    Shape,
    tensor::{BoolTensor, FloatTensor},
};

use super::{AmpTensor, Factors, Lazy, Reader, Saturating, Scores, rounded::saturated};
use crate::{graph::Graph, precision};

/// What a value was made of, as far as that gives what its stored form does not.
pub(crate) enum Recipe<B: AmpBackend, G: Graph<B>> {
    /// All values are 0 or 1, which every dtype represents exactly.
    ZerosAndOnes,
    /// All values are the same number, which the compute dtype represents exactly, or they are undefined.
    Filled,
    /// The result of a saturating op, stored in low precision, and its operand.
    Saturated(Saturating<BoolTensor<B>>, FloatTensor<G::Inner>),
    /// A concatenation in a dimension of parts in low precision and in F32, stored in low precision.
    Cat(Vec<AmpTensor<B, G>>, usize),
    /// A product stored in F16. One of two F16 numbers above 256 is inf. Where it is stored, that is the price of F16. But a
    /// dot product, which Burn composes of a product and a sum, and so a cosine similarity, is far from overflowing. So
    /// whoever reads the product in F32 gets it computed in F32.
    Product(FloatTensor<G::Inner>, FloatTensor<G::Inner>),
    /// A chain of ops that has not been computed. What is stored is the low tensor that it begins with.
    Chain(Lazy<B, G>),
    /// Few elements in this shape, which are stored in another one; see [`reshaped`](super::reshaped).
    Reshaped(Shape),
    /// A product that is to be scaled and masked. What is stored is the product.
    Scores(Scores<B>),
    /// The log-softmax of `x` along the last dimension, with the logarithm of each row's sum of exponentials.
    LogSoftmax {
        x: FloatTensor<G::Inner>,
        log_sum_exp: FloatTensor<G::Inner>,
    },
    /// A gradient, stored as the backward pass left it. Gradients are in no graph, so the function that applies the factors
    /// is that of `NoGraph`.
    Scaled(Factors<B>, Apply<B, G>),
}

/// Applies the factors of a gradient.
pub(super) type Apply<B, G> =
    fn(&Factors<B>, FloatTensor<<G as Graph<B>>::Inner>) -> FloatTensor<<G as Graph<B>>::Inner>;

/// A recipe, and the forms that have been made by it.
pub(super) struct Forms<B: AmpBackend, G: Graph<B>> {
    pub(super) recipe: Recipe<B, G>,
    low: OnceLock<FloatTensor<G::Inner>>,
    full: OnceLock<FloatTensor<G::Inner>>,
}

impl<B: AmpBackend, G: Graph<B>> Recipe<B, G> {
    /// The shape that the program sees, if what is stored may have another one.
    pub(super) fn shape(&self) -> Option<Shape> {
        match self {
            Self::Chain(lazy) => Some(lazy.shape()),
            Self::Reshaped(shape) => Some(shape.clone()),
            Self::ZerosAndOnes
            | Self::Filled
            | Self::Saturated(..)
            | Self::Cat(..)
            | Self::Product(..)
            | Self::Scores(_)
            | Self::LogSoftmax { .. }
            | Self::Scaled(..) => None,
        }
    }

    /// Whether the stored form was rounded, and F32 values are within reach; see [`rounded`](super::rounded).
    pub(crate) fn is_rounded(&self) -> bool {
        matches!(self, Self::Saturated(..) | Self::Cat(..))
    }

    /// Whether a reader in any dtype gets what is stored, cast.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(
            self,
            Self::ZerosAndOnes | Self::Filled | Self::LogSoftmax { .. }
        )
    }

    /// Whether the value has not been computed, and will have one dtype whoever reads it.
    pub(super) fn has_one_dtype(&self) -> bool {
        match self {
            Self::Scores(_) | Self::Scaled(..) | Self::Reshaped(_) => true,
            Self::Chain(lazy) => lazy.is_view(),
            Self::ZerosAndOnes
            | Self::Filled
            | Self::Saturated(..)
            | Self::Cat(..)
            | Self::Product(..)
            | Self::LogSoftmax { .. } => false,
        }
    }

    /// Whether the value has not been computed.
    pub(super) fn waits(&self) -> bool {
        matches!(
            self,
            Self::Chain(_) | Self::Scores(_) | Self::Scaled(..) | Self::Reshaped(_)
        )
    }
}

impl<B: AmpBackend, G: Graph<B>> Forms<B, G> {
    pub(super) fn of(recipe: Recipe<B, G>) -> Self {
        Self {
            recipe,
            low: OnceLock::new(),
            full: OnceLock::new(),
        }
    }

    /// Whether there is a form in low precision.
    pub(super) fn has_low(&self) -> bool {
        self.low.get().is_some()
    }

    /// Whether a form has been made and kept.
    pub(super) fn is_made(&self) -> bool {
        self.has_low() || self.full.get().is_some()
    }

    /// The value in its one dtype, made of what is `stored`.
    pub(super) fn settled(
        &self,
        stored: FloatTensor<G::Inner>,
        keeps: bool,
    ) -> FloatTensor<G::Inner> {
        match &self.recipe {
            Recipe::Scores(scores) => self.low(keeps, || scores.apply::<G>(stored)),
            Recipe::Scaled(factors, apply) => self.full(keeps, || apply(factors, stored)),
            Recipe::Chain(lazy) => self.low(keeps, || lazy.viewed()),
            Recipe::Reshaped(shape) => self.full(keeps, || G::reshaped(stored, shape.clone())),
            Recipe::ZerosAndOnes
            | Recipe::Filled
            | Recipe::Saturated(..)
            | Recipe::Cat(..)
            | Recipe::Product(..)
            | Recipe::LogSoftmax { .. } => stored,
        }
    }

    /// The value for a reader in dtype `to`, in low precision or in F32; `None` if that is what is stored, cast.
    pub(super) fn made(&self, to: Precision, keeps: bool) -> Option<FloatTensor<G::Inner>> {
        match &self.recipe {
            Recipe::Saturated(..) | Recipe::Cat(..) | Recipe::Product(..) if to.is_low() => None,
            Recipe::Saturated(op, x) => {
                Some(self.full(keeps, || saturated::<B, G>(op.clone(), x.clone())))
            }
            Recipe::Cat(parts, dim) => Some(self.full(keeps, || {
                let parts = parts.iter().cloned().map(|part| {
                    let reader = Reader::alone(&part);
                    part.read(Precision::F32, reader)
                });
                kernels::cat::cat::<G::Inner>(parts.collect(), *dim)
            })),
            Recipe::Product(lhs, rhs) => Some(self.full(keeps, || {
                kernels::product::forward::<G::Inner>(lhs.clone(), rhs.clone())
            })),
            // The graph has one node of a sum, so that its gradient is computed once.
            Recipe::Chain(lazy) if to.is_low() && lazy.is_computed_in_f32() => {
                Some(self.low(keeps, || {
                    let values = self.full.get_or_init(|| lazy.in_f32()).clone();
                    precision::cast::<G::Inner>(values, to)
                }))
            }
            Recipe::Chain(lazy) if to.is_low() => Some(self.low(keeps, || lazy.in_low(to))),
            Recipe::Chain(lazy) => Some(self.full(keeps, || lazy.in_f32())),
            Recipe::ZerosAndOnes
            | Recipe::Filled
            | Recipe::Reshaped(_)
            | Recipe::Scores(_)
            | Recipe::LogSoftmax { .. }
            | Recipe::Scaled(..) => None,
        }
    }

    fn low(
        &self,
        keeps: bool,
        make: impl FnOnce() -> FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        kept(&self.low, keeps, make)
    }

    fn full(
        &self,
        keeps: bool,
        make: impl FnOnce() -> FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        kept(&self.full, keeps, make)
    }
}

/// A form that is there, or is made now. It is kept if others may read it: a softmax or Adam reads twice.
fn kept<T: Clone>(form: &OnceLock<T>, keeps: bool, make: impl FnOnce() -> T) -> T {
    if !keeps && form.get().is_none() {
        make()
    } else {
        form.get_or_init(make).clone()
    }
}
