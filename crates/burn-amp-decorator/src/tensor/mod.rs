//! The float tensor of [`Amp`](crate::Amp): the values, and what burn-amp knows about them.
//!
//! * [`role`]: whether a tensor is a parameter, a gradient or none of these
//! * [`forms`]: the forms of a value, and the recipe for those that are not stored
//! * [`rounded`]: results stored in low precision, with their F32 values within reach
//! * [`lazy`]: chains of ops that have not been computed
//! * [`scores`]: scaled and masked products that have not been computed
//! * [`view`]: transpositions and reshapes that have not been computed
//! * [`pending`]: gradients whose factors have not been applied
//! * [`read`]: the one way to the values
//! * [`kind`]: the kinds of tensors, for tests

#[cfg(burn_0_22)]
mod as_autodiff;
mod forms;
mod kind;
mod lazy;
mod pending;
mod read;
mod role;
mod rounded;
mod scores;
mod view;

use std::{fmt, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{AmpBackend, made::Memory};
use burn_backend::{DType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

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
    graph::{Graph, NoGraph, Origin, Probe, Recorded},
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
    /// The other forms of the values; `None` if a cast makes them.
    forms: Option<Arc<Forms<B, G>>>,
    pub(crate) logical: Precision,
    /// The policy and the loss scale of the device that the values are on.
    #[doc(hidden)]
    pub context: &'static Context<B>,
    #[doc(hidden)]
    pub role: Role<B>,
    pub(crate) recorded: Recorded<B>,
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
            forms: None,
            logical,
            context,
            role,
            recorded,
        }
    }

    /// Remembers what the values were made of, instead of what was known of it.
    pub(crate) fn with_recipe(self, recipe: Recipe<B, G>) -> Self {
        Self {
            forms: Some(Arc::new(Forms::of(recipe))),
            ..self
        }
    }

    /// What the values were made of, if that gives what their stored form does not.
    #[inline]
    pub(crate) fn recipe(&self) -> Option<&Recipe<B, G>> {
        self.forms.as_ref().map(|forms| &forms.recipe)
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

    /// Updates the role after `require_grad` or `detach`: a tensor that requires a gradient itself becomes a leaf of
    /// the graph, and a leaf that no longer does becomes a parameter outside it.
    #[inline]
    pub(crate) fn enrolled(mut self) -> Self {
        if G::Inner::float_is_require_grad(&self.inner) {
            if !matches!(self.role, Role::Leaf(_)) {
                let origin = self.role.origin().cloned();
                let origin = origin.unwrap_or_else(|| Arc::new(Origin::default()));
                let checked = self.context.scales_losses();
                let leaf = G::enroll(&self.inner, origin, &self.context.leaves, checked);
                if let Some(leaf) = leaf {
                    self.role = Role::Leaf(leaf);
                }
            }
        } else if let Role::Leaf(leaf) = self.role {
            self.role = Role::Parameter(leaf.origin().clone());
        }
        self
    }

    /// Whether the tensor requires a gradient itself.
    #[inline]
    pub(crate) fn is_require_grad(&self) -> bool {
        matches!(self.role, Role::Leaf(_)) || G::Inner::float_is_require_grad(&self.inner)
    }

    /// The device that the values are on.
    #[inline]
    pub fn device(&self) -> B::Device {
        device_of::<G::Inner>(&self.inner)
    }

    /// Whether the tensor is in a graph.
    pub fn is_tracked(&self) -> bool {
        match self.chain() {
            Some(lazy) => lazy.is_tracked(),
            None => G::is_tracked(&self.inner),
        }
    }

    /// The level in the graph of the tensor, or of the one that it is made of.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        G::level(&self.inner)
    }

    /// Whether the tensor stands for values that have not been computed.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.recipe().is_some_and(Recipe::waits)
    }

    /// The number of the tensor's own node in the graph; `None` if it has none.
    pub(crate) fn own_node(&self) -> Option<u64> {
        if self.waits() {
            None
        } else {
            G::node(&self.inner)
        }
    }

    /// The node of a leaf without its values, for its gradient.
    pub(crate) fn handle(&self) -> Option<FloatTensor<burn_autodiff::Autodiff<B>>> {
        match &self.role {
            Role::Leaf(_) => G::handle(&self.inner, &self.context.leaves),
            _ => None,
        }
    }

    /// The tensor of the graph at whose node a gradient of this tensor is stored. It is computed if it waits.
    pub(crate) fn in_graph(&self) -> FloatTensor<G::Inner> {
        if self.waits() {
            self.clone().read(self.exact_dtype(), Reader::Cut)
        } else {
            self.inner.clone()
        }
    }

    /// The memory of the values, or of those of the tensor that this one is made of.
    pub(crate) fn memory(&self) -> Option<Memory> {
        G::Inner::float_memory(&self.inner)
    }

    /// The same tensor; `probe` sees its gradient in the backward pass. A tensor that waits has no node yet, and stays as
    /// it is.
    pub(crate) fn probed(self, probe: Probe<B>) -> Self {
        if self.waits() {
            return self;
        }
        Self {
            inner: G::probed(self.inner, probe),
            ..self
        }
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

impl<B: AmpBackend, G: Graph<B>> fmt::Debug for AmpTensor<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpTensor")
            .field("kind", &self.kind())
            .field("shape", &self.shape())
            .field("logical", &self.logical)
            .field("stored", &self.stored())
            .finish_non_exhaustive()
    }
}

impl<B: AmpBackend, G: Graph<B>> TensorMetadata for AmpTensor<B, G> {
    #[cfg(burn_0_22)]
    type Device = B::Device;

    #[cfg(burn_0_22)]
    fn device(&self) -> B::Device {
        device_of::<G::Inner>(&self.inner)
    }

    // Another tensor may have the same values in another form.
    #[cfg(burn_0_22)]
    fn can_mut(&self) -> bool {
        self.forms.is_none() && self.inner.can_mut()
    }

    fn dtype(&self) -> DType {
        precision::to_burn(self.logical)
    }

    fn shape(&self) -> Shape {
        match self.chain() {
            Some(lazy) => lazy.shape(),
            None => self.inner.shape(),
        }
    }

    fn rank(&self) -> usize {
        match self.chain() {
            Some(lazy) => lazy.shape().num_dims(),
            None => self.inner.rank(),
        }
    }
}
