//! A tensor that was computed from gradients and has entered a graph, as the new parameter of an optimizer does.

use burn_amp_core::Precision;
use burn_backend::{Backend, Shape};

use crate::loss_scale::Passes;

/// What is known about a tensor that was computed from gradients. If it then requires a gradient, it is the new parameter
/// of an optimizer's step, whatever ops the step is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stepped {
    /// Whether the outcome of one of the backward passes is still on the device.
    pub(crate) undecided: bool,
    /// The low dtype in which the old parameter is stored.
    pub(crate) low: Option<Precision>,
}

impl Stepped {
    /// A tensor of a shape, computed from gradients of `passes`.
    pub(crate) fn by<B: Backend>(passes: &Passes<B>, shape: impl FnOnce() -> Shape) -> Self {
        Self {
            undecided: passes.matter(),
            low: passes.low_leaf_of(shape),
        }
    }
}
