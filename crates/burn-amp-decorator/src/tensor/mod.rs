//! The float tensor of [`Amp`](crate::Amp): the values, and what burn-amp knows about them.
//!
//! * [`facts`]: what is known about a tensor besides its values
//! * [`role`]: whether a tensor is a parameter, a gradient or none of these
//! * [`forms`]: the forms of a value, and the recipe for those that are not stored
//! * [`rounded`]: results stored in low precision, with their F32 values within reach
//! * [`lazy`]: chains of ops that have not been computed
//! * [`scores`]: scaled and masked products that have not been computed
//! * [`reshaped`]: tensors of few elements that are stored in another shape
//! * [`view`]: transpositions and reshapes that have not been computed
//! * [`pending`]: gradients whose factors have not been applied
//! * [`read`]: the one way to the values
//! * [`node`]: a tensor and its node in a graph; [`metadata`]: its dtype and shape
//! * [`kind`]: the kinds of tensors, for tests

#[cfg(burn_0_22)]
mod as_autodiff;
mod facts;
mod forms;
mod kind;
mod lazy;
mod metadata;
mod node;
mod pending;
mod read;
mod reshaped;
mod role;
mod rounded;
mod scores;
mod view;

use std::{ops::Deref, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{AmpBackend, made::Memory};
use burn_backend::{DType, ops::FloatTensorOps, tensor::FloatTensor};

pub use facts::Facts;
pub(crate) use facts::PlainFacts;
pub(crate) use forms::Recipe;
pub use kind::Kind;
pub(crate) use lazy::Lazy;
pub use pending::{Factors, times};
pub use read::Reader;
pub use role::Role;
pub(crate) use rounded::Saturating;
pub(crate) use scores::Scores;

use forms::Forms;

use crate::{
    graph::{Graph, NoGraph, Origin, Recorded},
    policy::Context,
    precision,
};

/// A float tensor of the inner backend, with what burn-amp knows about it.
///
/// Its `dtype()`, and the dtype of all data read from it, is the *logical* dtype: the one that the tensor would have
/// without burn-amp. The policy changes the *storage* dtype only.
///
/// Some tensors stand for values that are computed when someone reads them. So there is one way to the values,
/// `read`, which says in which dtype and for whom.
#[derive(Clone)]
pub struct AmpTensor<B: AmpBackend, G: Graph<B> = NoGraph> {
    /// The values in their storage dtype. If the tensor waits, these are the values of the tensor that it is made of, so
    /// nothing outside of this folder sees them.
    inner: FloatTensor<G::Inner>,
    facts: Arc<Facts<B>>,
}

impl<B: AmpBackend, G: Graph<B>> Deref for AmpTensor<B, G> {
    type Target = Facts<B>;

    #[inline]
    fn deref(&self) -> &Facts<B> {
        &self.facts
    }
}

/// What a tensor consists of, with its values computed: to make another tensor of the same values.
pub struct Parts<B: AmpBackend, G: Graph<B>> {
    /// The values, in the dtype in which they are stored.
    pub values: FloatTensor<G::Inner>,
    /// The dtype that the program sees.
    pub logical: Precision,
    /// The policy and the loss scale of the device.
    pub context: &'static Context<B>,
    /// What the tensor is in training.
    pub role: Role<B>,
    /// What a graph knows of it.
    pub recorded: Recorded<B>,
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// Wraps a tensor whose logical dtype is its storage dtype, and about which nothing else is known.
    pub fn new(values: FloatTensor<G::Inner>, context: &'static Context<B>) -> Self {
        Self::of(Parts {
            logical: precision::of(&values),
            values,
            context,
            role: Role::Activation,
            recorded: Self::recorded(context, 0),
        })
    }

    /// Makes a tensor of its parts.
    #[inline]
    pub fn of(parts: Parts<B, G>) -> Self {
        let Parts {
            values,
            logical,
            context,
            role,
            recorded,
        } = parts;
        Self {
            inner: values,
            facts: Facts::shared(context, logical, role, recorded),
        }
    }

    /// Makes a tensor of values and of what is known about them.
    #[inline]
    pub(crate) fn with_facts(values: FloatTensor<G::Inner>, facts: Arc<Facts<B>>) -> Self {
        Self {
            inner: values,
            facts,
        }
    }

    /// Whether nothing is known that a move to another device would change, but for the context.
    pub(crate) fn has_nothing_to_move(&self) -> bool {
        self.forms.is_none() && self.recorded.is_nothing() && !matches!(self.role, Role::Leaf(_))
    }

    /// The tensor with other values, of which the same is known.
    pub(crate) fn map(
        self,
        change: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
    ) -> Self {
        Self::with_facts(change(self.inner), self.facts)
    }

    /// What is known about the tensor, to be changed. What clones of it know stays as it is.
    pub(crate) fn facts_mut(&mut self) -> &mut Facts<B> {
        Arc::make_mut(&mut self.facts)
    }

    /// Remembers what the values were made of, instead of what was known of it.
    pub(crate) fn with_recipe(mut self, recipe: Recipe<B, G>) -> Self {
        self.facts_mut().forms = Some(Arc::new(Forms::<B, G>::of(recipe)));
        self
    }

    /// Whether clones of the tensor know the same.
    #[inline]
    fn has_clones(&self) -> bool {
        Arc::strong_count(&self.facts) > 1
    }

    /// Whether other ops will read the tensor, if that is known.
    pub(crate) fn has_other_readers(&self) -> Option<bool> {
        self.recorded.has_other_readers(self.has_clones())
    }

    /// What the values were made of, if that gives what their stored form does not.
    #[inline]
    pub(crate) fn recipe(&self) -> Option<&Recipe<B, G>> {
        self.facts.forms::<G>().map(|forms| &forms.recipe)
    }

    /// The chain that the tensor stands for.
    pub(crate) fn chain(&self) -> Option<&Lazy<B, G>> {
        match self.recipe() {
            Some(Recipe::Chain(lazy)) => Some(lazy),
            _ => None,
        }
    }

    /// Whether nothing is known about the tensor besides its values.
    pub(crate) fn is_plain(&self) -> bool {
        self.forms.is_none() && matches!(self.role, Role::Activation)
    }

    /// A tensor that stands for a chain, which is not computed.
    pub(crate) fn of_chain(chain: Lazy<B, G>, context: &'static Context<B>) -> Self {
        let low = chain.source().clone();
        Self::of(Parts {
            logical: precision::of(&low),
            values: low,
            context,
            role: Role::Activation,
            recorded: Recorded::nothing(),
        })
        .with_recipe(Recipe::Chain(chain))
    }

    /// Facts about a new tensor; `chain` is how many ops a backward pass computes again to get it.
    pub(crate) fn recorded(context: &Context<B>, chain: u8) -> Recorded<B> {
        if context.policy.compute().is_low() {
            Recorded::sharing(chain)
        } else {
            Recorded::nothing()
        }
    }

    /// Makes a tensor after `require_grad` or `detach`: one that requires a gradient itself becomes a leaf of the graph, and a
    /// leaf that no longer does becomes a parameter outside it.
    #[inline]
    pub(crate) fn enrolled(mut parts: Parts<B, G>) -> Self {
        let role = &mut parts.role;
        if G::Inner::float_is_require_grad(&parts.values) {
            if !matches!(role, Role::Leaf(_)) {
                let origin = role.origin().cloned();
                let origin = origin.unwrap_or_else(|| Arc::new(Origin::default()));
                let context = parts.context;
                let leaf = G::enroll(
                    &parts.values,
                    origin,
                    &context.leaves,
                    context.scales_losses(),
                );
                if let Some(leaf) = leaf {
                    *role = Role::Leaf(leaf);
                }
            }
        } else if let Role::Leaf(leaf) = role {
            *role = Role::Parameter(leaf.origin().clone());
        }
        Self::of(parts)
    }

    /// Whether the tensor requires a gradient itself.
    #[inline]
    pub(crate) fn is_require_grad(&self) -> bool {
        let is_inner = !self.waits() && G::Inner::float_is_require_grad(&self.inner);
        is_inner || matches!(self.role, Role::Leaf(_))
    }

    /// The device that the values are on.
    #[inline]
    pub fn device(&self) -> B::Device {
        device_of::<G::Inner>(&self.inner)
    }

    /// The parameter that the tensor is, or is a view of.
    #[inline]
    pub(crate) fn parameter(&self) -> Option<&Arc<Origin>> {
        self.role.origin().or(self.recorded.parameter.as_ref())
    }

    /// The values of a parameter in low precision, if they are there.
    pub(crate) fn lowered(&self) -> Option<(Precision, FloatTensor<B>)> {
        match &self.role {
            Role::Leaf(leaf) => leaf.lowered(),
            _ => self.recorded.lowered(),
        }
    }

    /// Whether a reader in low precision gets values that are there.
    pub(crate) fn is_lowered(&self) -> bool {
        let forms = self.facts.forms::<G>();
        self.lowered().is_some() || forms.is_some_and(|forms| forms.has_low())
    }

    /// Makes the values in low precision ahead of their readers, who share them, if the policy lowers anything.
    pub(crate) fn lower(&self) {
        let low = self.context.policy.compute();
        if !low.is_low() {
            return;
        }
        match &self.role {
            _ if self.forms.is_some() => drop(self.clone().read(low, Reader::Cut)),
            Role::Leaf(leaf) => drop(leaf.cast(self.stored_values(), low)),
            _ => self
                .recorded
                .add_low(low, precision::cast::<B>(self.stored_values(), low)),
        }
    }

    /// Whether the tensor stands for values that have not been computed.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.recipe().is_some_and(Recipe::waits)
    }

    /// The memory of the values, or of those of the tensor that this one is made of.
    pub(crate) fn memory(&self) -> Option<Memory> {
        G::Inner::float_memory(&self.inner)
    }

    /// The tensor of the inner backend, to be changed in place. It is computed if it waits.
    #[cfg(feature = "distributed")]
    pub(crate) fn in_place(&mut self) -> &mut FloatTensor<G::Inner> {
        if self.waits() {
            *self = Self::of(self.clone().apart());
        }
        &mut self.inner
    }

    /// Returns the dtype in which the values are stored.
    pub fn storage_dtype(&self) -> DType {
        precision::to_burn(self.stored())
    }

    /// Returns the tensor of the inner backend, cast to the logical dtype: the tensor as the plain backend would hold
    /// it.
    ///
    /// For ops outside the policy; [`Amp::custom_op`](crate::Amp::custom_op) runs an op under it.
    pub fn into_inner(self) -> FloatTensor<G::Inner> {
        let (dtype, logical) = (self.exact_dtype(), self.logical);
        let reader = Reader::alone(&self);
        precision::cast::<G::Inner>(self.read(dtype, reader), logical)
    }
}
