//! Tensors of few elements that are stored in another shape than the program sees.
//!
//! A batch norm reshapes its means between `[1, channels, 1, 1]`, `[channels, 1]` and `[channels]`, and updates its running
//! statistics in between. A backend that fuses makes a kernel of each few of these ops, since it ends one where the shape
//! changes. So such a tensor keeps the shape in which it was computed, and ops that compute element by element take it in that
//! shape: then one kernel computes all of them. Any other reader gets it in the shape that the program sees.

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps};

use super::{AmpTensor, Parts, Recipe, Role};
use crate::graph::Graph;

/// The most elements of a tensor whose reshape waits: a kernel over so many takes no longer than its launch.
const FEW: usize = 1 << 14;

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// The shape in which the tensor is stored, if the program sees it in another one.
    pub(crate) fn stored_shape(&self) -> Option<Shape> {
        matches!(self.recipe(), Some(Recipe::Reshaped(_))).then(|| self.inner.shape())
    }

    /// The tensor in the shape in which it is stored.
    pub(crate) fn in_stored_shape(self) -> Self {
        if self.stored_shape().is_none() {
            return self;
        }
        Self::of(Parts {
            recorded: Self::recorded(self.context, self.recorded.chain),
            logical: self.logical,
            context: self.context,
            role: Role::Activation,
            values: self.inner,
        })
    }

    /// Whether a reshape can wait: of few elements in F32 that are no parameter, nor a view of one, but for a [bias](Self::as_bias).
    pub(crate) fn may_be_reshaped(&self) -> bool {
        let is_plain = self.is_plain() || matches!(self.recipe(), Some(Recipe::Reshaped(_)));
        is_plain
            && self.recorded.parameter.is_none()
            && self.stored() == Precision::F32
            && (2..=FEW).contains(&self.inner.shape().num_elements())
    }

    /// A bias that the program reshapes to a row. The op that adds it reads the parameter itself, so the row needs no node in a
    /// graph.
    pub(crate) fn as_bias(&self, row: &Shape) -> Option<Self> {
        let is_row = row.num_dims() > 1 && row.as_slice().last() == Some(&row.num_elements());
        let is_leaf = self.forms.is_none() && matches!(self.role, Role::Leaf(_));
        (is_row && is_leaf && self.rank() == 1).then(|| {
            Self::of(Parts {
                recorded: Self::recorded(self.context, 0),
                logical: self.logical,
                context: self.context,
                role: Role::Activation,
                values: self.inner.clone(),
            })
        })
    }

    /// The same values, seen in a shape. They stay stored as they are, if the reshape can wait.
    pub(crate) fn seen_in(self, shape: Shape) -> Self {
        let is_stored_shape = shape == self.inner.shape();
        // What the program makes of a bias is not the parameter, also not in its shape.
        let is_of_bias =
            self.stored_shape().is_some() && G::Inner::float_is_require_grad(&self.inner);
        if is_stored_shape && !is_of_bias {
            return self.in_stored_shape();
        }
        if is_stored_shape || !self.may_be_reshaped() {
            let reshaped = |values| G::Inner::float_reshape(values, shape);
            return self.settled().map(reshaped);
        }
        let mut seen = self;
        // Its casts are made in the shape that the program sees.
        seen.facts_mut().recorded = Self::recorded(seen.context, seen.recorded.chain);
        seen.with_recipe(Recipe::Reshaped(shape))
    }
}
