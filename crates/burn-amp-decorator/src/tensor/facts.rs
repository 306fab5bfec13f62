//! What is known about a tensor besides its values.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_backend::Backend;

use super::{Role, forms::Forms};
use crate::{
    graph::{Graph, Recorded},
    loss_scale::Passes,
    policy::Context,
};

/// What is known about a tensor besides its values. Clones of the tensor share it.
#[derive(Clone)]
pub struct Facts<B: Backend> {
    pub(crate) logical: Precision,
    /// The policy and the loss scale of the device that the values are on.
    pub context: &'static Context<B>,
    /// Whether it is a parameter, a gradient or none of these.
    pub role: Role<B>,
    pub(crate) recorded: Recorded<B>,
    /// The other forms of the values; `None` if a cast makes them. A `Forms<B, G>`, whose graph the facts do not depend on.
    pub(super) forms: Option<Arc<dyn Any + Send + Sync>>,
}

/// The facts of the tensors of one device of which nothing is known but their dtype, and whether they are gradients. They
/// share them, so that such a tensor allocates nothing.
pub(crate) struct PlainFacts<B: Backend>([[OnceLock<Arc<Facts<B>>>; 2]; Precision::ALL.len()]);

impl<B: Backend> PlainFacts<B> {
    pub(crate) const fn new() -> Self {
        Self([const { [const { OnceLock::new() }; 2] }; Precision::ALL.len()])
    }

    /// Those of tensors with the dtype `logical` in `context`, whose facts these are.
    #[inline]
    fn of(
        &self,
        context: &'static Context<B>,
        logical: Precision,
        is_gradient: bool,
    ) -> Arc<Facts<B>> {
        let facts = self.0[logical as usize][usize::from(is_gradient)].get_or_init(|| {
            Arc::new(Facts {
                logical,
                context,
                role: match is_gradient {
                    true => Role::Gradient(Passes::none()),
                    false => Role::Activation,
                },
                recorded: Recorded::nothing(),
                forms: None,
            })
        });
        facts.clone()
    }
}

impl<B: Backend> fmt::Debug for PlainFacts<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainFacts")
    }
}

impl<B: Backend> Facts<B> {
    /// The forms of a tensor of the graph `G` that a cast does not make.
    #[inline]
    pub(super) fn forms<G: Graph<B>>(&self) -> Option<&Forms<B, G>>
    where
        B: AmpBackend,
    {
        self.forms.as_ref().map(|forms| {
            forms
                .downcast_ref()
                .expect("a tensor has forms of its own graph")
        })
    }

    /// Those of a tensor of which nothing is known but its dtype, and whether it is a gradient that carries no backward pass.
    #[inline]
    pub(crate) fn plain(
        context: &'static Context<B>,
        logical: Precision,
        is_gradient: bool,
    ) -> Arc<Self> {
        context.plain_facts.of(context, logical, is_gradient)
    }

    /// Those of a tensor whose other form a cast makes.
    #[inline]
    pub(super) fn shared(
        context: &'static Context<B>,
        logical: Precision,
        role: Role<B>,
        recorded: Recorded<B>,
    ) -> Arc<Self> {
        match &role {
            Role::Activation if recorded.is_nothing() => Self::plain(context, logical, false),
            Role::Gradient(passes) if passes.is_none() && recorded.is_nothing() => {
                Self::plain(context, logical, true)
            }
            _ => Arc::new(Self {
                logical,
                context,
                role,
                recorded,
                forms: None,
            }),
        }
    }
}
