//! The one way to the values of a tensor.

use std::sync::Arc;

use burn_amp_core::Precision;
use burn_amp_kernels::{AmpBackend, made};
use burn_backend::tensor::FloatTensor;

use super::{AmpTensor, Parts, Recipe, Role};
use crate::{
    graph::{Graph, Recorded},
    precision,
};

/// Who reads a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// An op, as one of the tensor's uses, whose gradients are added up.
    Op {
        /// The highest graph level among the op's operands.
        level: usize,
        /// Whether a graph computes the result of the op again in the backward pass.
        recomputes: bool,
    },
    /// What takes the tensor itself: `detach`, `require_grad`, `inner`. A leaf stays the same leaf.
    Cut,
}

impl Reader {
    /// An op that reads no other tensor.
    pub(crate) fn alone<B: AmpBackend, G: Graph<B>>(tensor: &AmpTensor<B, G>) -> Self {
        Self::Op {
            level: tensor.level(),
            recomputes: false,
        }
    }
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Returns the values in dtype `to`.
    ///
    /// In F32 they are as exact as they are known: a result that was rounded to low precision is not the rounded one.
    /// What waits is computed; clones of the tensor share it, and all casts.
    #[inline]
    pub fn read(self, to: Precision, reader: Reader) -> FloatTensor<G::Inner> {
        if G::RECORDS && self.context.saves_eight_bits {
            self.read_and_offered(to, reader)
        } else {
            self.read_as_is(to, reader)
        }
    }

    /// Reads the tensor, of which the graph may keep eight bits. What comes from a parameter, it keeps as it is: the parameter
    /// is there anyway.
    #[cold]
    fn read_and_offered(self, to: Precision, reader: Reader) -> FloatTensor<G::Inner> {
        let offers = self.is_offered();
        let origin = (offers && self.forms.is_none()).then(|| self.inner.clone());
        let values = self.read_as_is(to, reader);
        if offers {
            G::offer(&values, origin.as_ref());
        }
        values
    }

    /// Returns the values for a product in low precision, and the dtype of the tensor whose node they have
    /// [in place](burn_amp_kernels::weight_product::InGraph) of one of a cast, if they have. `level` is the highest graph level
    /// among the product's operands.
    pub(crate) fn read_for_product(
        self,
        to: Precision,
        level: usize,
    ) -> (FloatTensor<G::Inner>, Option<Precision>) {
        let from = self.stored();
        if self.forms.is_some() || from != Precision::F32 || !to.is_low() {
            let recomputes = false;
            return (self.read(to, Reader::Op { level, recomputes }), None);
        }
        let offers = self.context.saves_eight_bits && self.is_offered();
        let origin = offers.then(|| self.inner.clone());
        let has_clones = self.has_clones();
        let (values, is_of_tensor) = match &self.facts.role {
            Role::Leaf(leaf) => {
                let values = G::cast_leaf_for_product(self.inner, leaf, to);
                (values, true)
            }
            _ => G::cast_for_product(self.inner, &self.facts.recorded, has_clones, to),
        };
        if offers {
            G::offer(&values, origin.as_ref());
        }
        (values, is_of_tensor.then_some(from))
    }

    /// Whether a graph may keep eight bits of the tensor: it is no parameter.
    fn is_offered(&self) -> bool {
        matches!(self.role, Role::Activation) && self.recorded.parameter.is_none()
    }

    #[inline]
    fn read_as_is(self, to: Precision, reader: Reader) -> FloatTensor<G::Inner> {
        if self.forms.is_none() && precision::of(&self.inner) == to && !self.is_summed_in_f32() {
            self.inner
        } else {
            self.made(to, reader)
        }
    }

    /// The dtype of a plain tensor under a policy that lowers nothing; `None` for any other.
    #[inline]
    pub(crate) fn unchanged_dtype(&self) -> Option<Precision> {
        let is_unchanged = self.forms.is_none()
            && !self.context.policy.compute().is_low()
            && precision::of(&self.inner) == self.logical;
        is_unchanged.then_some(self.logical)
    }

    /// The values of a tensor that has an [`unchanged_dtype`](Self::unchanged_dtype).
    #[inline(always)]
    pub(crate) fn unchanged(self) -> FloatTensor<G::Inner> {
        self.inner
    }

    fn made(self, to: Precision, reader: Reader) -> FloatTensor<G::Inner> {
        let tensor = self.settled();
        let keeps = tensor.keeps_forms();
        let Some(values) = tensor
            .facts
            .forms::<G>()
            .and_then(|forms| forms.made(to, keeps))
        else {
            return tensor.cast(to, reader);
        };
        made::float::<G::Inner>(&values);
        precision::cast::<G::Inner>(values, to)
    }

    /// Casts the tensor's own values.
    fn cast(self, to: Precision, reader: Reader) -> FloatTensor<G::Inner> {
        let from = precision::of(&self.inner);
        let (level, recomputes) = match reader {
            Reader::Op { level, recomputes } => (level, recomputes),
            Reader::Cut if from == to => return self.inner,
            Reader::Cut => return precision::cast::<G::Inner>(self.inner, to),
        };
        let has_clones = self.has_clones();
        match &self.facts.role {
            Role::Leaf(leaf) if to != from || self.is_summed_in_f32() => {
                G::cast_leaf(self.inner, leaf, to, level, &self.facts.context.leaves)
            }
            _ => G::cast(self.inner, &self.facts.recorded, has_clones, to, recomputes),
        }
    }

    /// The values in the dtype in which they are stored, or as a reader of F32 gets them if they have not been computed,
    /// outside any graph.
    pub(crate) fn stored_values(&self) -> FloatTensor<B> {
        G::values(&self.clone().read(self.stored(), Reader::Cut))
    }

    /// Whether this is a leaf whose gradients must be added in F32: every use then reads it through a node of its own, even
    /// in the dtype in which it is stored.
    #[inline]
    fn is_summed_in_f32(&self) -> bool {
        matches!(self.role, Role::Leaf(_))
            && precision::of(&self.inner).is_low()
            && self.context.policy.compute().is_low()
    }

    /// The tensor with a view, scores or the factors of a gradient computed, which have one dtype whoever reads them. A
    /// chain goes on waiting: its reader decides the dtype.
    pub(crate) fn settled(self) -> Self {
        let keeps = self.keeps_forms();
        let Self { inner, facts } = self;
        match facts.forms::<G>() {
            Some(forms) if forms.recipe.has_one_dtype() => Self::of(Parts {
                values: forms.settled(inner, keeps),
                logical: facts.logical,
                context: facts.context,
                role: facts.role.clone(),
                recorded: match &forms.recipe {
                    Recipe::Chain(lazy) => lazy.recorded(),
                    _ => facts.recorded.clone(),
                },
            }),
            _ => Self { inner, facts },
        }
    }

    /// Whether a form that is made now is kept, since another tensor may be read in it, too.
    fn keeps_forms(&self) -> bool {
        let is_shared = |forms| Arc::strong_count(forms) > 1;
        self.has_clones() || self.forms.as_ref().is_some_and(is_shared)
    }

    /// Whether a reader in dtype `to` gets the tensor's own values, cast.
    pub(crate) fn casts_to(&self, to: Precision) -> bool {
        match self.recipe() {
            Some(Recipe::Saturated(..) | Recipe::Cat(..) | Recipe::Product(..)) => to.is_low(),
            Some(Recipe::Chain(lazy)) => lazy.is_view(),
            _ => true,
        }
    }

    /// The dtype in which the values are stored, or in which an op that keeps dtypes would read those that wait.
    pub fn stored(&self) -> Precision {
        match self.recipe() {
            Some(Recipe::Chain(lazy)) if !lazy.is_view() => Precision::F32,
            // Its factors are applied in F32.
            Some(Recipe::Scaled(..)) => precision::of(&self.inner).join(Precision::F32),
            _ => precision::of(&self.inner),
        }
    }

    /// The lowest dtype in which the values lose nothing: F32 for a result that was rounded when it was stored.
    pub fn exact_dtype(&self) -> Precision {
        match self.recipe() {
            Some(Recipe::Product(..)) if self.logical == Precision::F32 => Precision::F32,
            Some(recipe) if recipe.is_rounded() => Precision::F32,
            _ => self.stored(),
        }
    }

    /// What the tensor consists of, with exact values that do not wait.
    pub(crate) fn apart(self) -> Parts<B, G> {
        match &self.forms {
            None => self.own_parts(),
            Some(_) => self.exact_parts(),
        }
    }

    fn exact_parts(self) -> Parts<B, G> {
        let tensor = self.settled();
        let dtype = tensor.exact_dtype();
        if !tensor.waits() && dtype == precision::of(&tensor.inner) {
            return tensor.own_parts();
        }
        Parts {
            logical: tensor.logical,
            context: tensor.context,
            role: Role::Activation,
            recorded: Recorded::nothing(),
            values: tensor.read(dtype, Reader::Cut),
        }
    }

    /// What a tensor that does not wait consists of.
    #[inline]
    fn own_parts(self) -> Parts<B, G> {
        let facts = Arc::unwrap_or_clone(self.facts);
        Parts {
            values: self.inner,
            logical: facts.logical,
            context: facts.context,
            role: facts.role,
            recorded: facts.recorded,
        }
    }

    /// The tensor stored in F32, or in F64 if it is.
    pub fn in_f32(self) -> Self {
        let wide = self.stored().join(Precision::F32);
        let (logical, context) = (self.logical.join(Precision::F32), self.context);
        let role = self.role.clone().after_cast::<G>();
        let reader = Reader::alone(&self);
        Self::of(Parts {
            values: self.read(wide, reader),
            logical,
            context,
            role,
            recorded: Recorded::nothing(),
        })
    }
}
