//! Backward passes whose outcome may still be on the device.
//!
//! With `loss_scale.sync = false` a gradient carries the passes it was computed from, through every op, so that an
//! optimizer can skip the whole sum of several micro-batches. A tensor that an optimizer keeps must not carry them
//! forever: passes whose gradients are known to be finite are dropped when lists are joined, and overflowed ones after
//! [`REMEMBERED`](DeferredPass::REMEMBERED) later passes.

use std::sync::Arc;

use burn_amp_core::{Outcome, Precision};
use burn_backend::{Backend, Shape};

use super::deferred::DeferredPass;

/// The backward passes that a gradient was computed from: one for most gradients, none if the host knows their outcome.
/// Besides, whether its parameter is stored in half precision.
///
/// Every gradient has such a list, so it is a single pointer.
#[derive(Clone, Debug)]
pub struct Passes<B: Backend>(Option<Arc<Carried<B>>>);

/// What a gradient carries.
#[derive(Clone, Debug)]
struct Carried<B: Backend> {
    passes: Vec<Arc<DeferredPass<B>>>,
    /// The largest parameter in half precision among those whose gradients it was computed from.
    low_leaf: Option<LowLeaf>,
}

/// A parameter in half precision.
#[derive(Clone, Copy, Debug)]
struct LowLeaf {
    elements: usize,
    stored: Precision,
}

impl<B: Backend> Passes<B> {
    /// Of a gradient that comes from no pass.
    #[inline]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether nothing is carried.
    #[inline]
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn of(pass: Arc<DeferredPass<B>>) -> Self {
        Self(Some(Arc::new(Carried {
            passes: vec![pass],
            low_leaf: None,
        })))
    }

    /// Adds that this is the gradient of a parameter of a shape, if that is `stored` in half precision.
    pub(crate) fn of_leaf(mut self, stored: Precision, shape: impl FnOnce() -> Shape) -> Self {
        if stored.is_low() {
            let elements = shape().num_elements();
            let carried = self.0.get_or_insert_with(|| {
                Arc::new(Carried {
                    passes: Vec::new(),
                    low_leaf: None,
                })
            });
            Arc::make_mut(carried).low_leaf = Some(LowLeaf { elements, stored });
        }
        self
    }

    /// Returns the dtype of a parameter in half precision from whose gradient a tensor of a shape was computed, if the
    /// parameter is as large: the factor of a clipping is computed from all gradients, and makes none of another.
    pub(crate) fn low_leaf_of(&self, shape: impl FnOnce() -> Shape) -> Option<Precision> {
        let leaf = self.0.as_ref()?.low_leaf?;
        (leaf.elements == shape().num_elements()).then_some(leaf.stored)
    }

    /// Adds the passes of another gradient that becomes part of this one.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        if let Some(others) = &other.0 {
            self.extend(others);
        }
    }

    #[cold]
    fn extend(&mut self, others: &Arc<Carried<B>>) {
        let Some(carried) = &mut self.0 else {
            self.0 = Some(others.clone());
            return self.forget_settled();
        };
        for other in &others.passes {
            if !carried.passes.iter().any(|pass| Arc::ptr_eq(pass, other)) {
                Arc::make_mut(carried).passes.push(other.clone());
            }
        }
        let elements = |leaf: Option<LowLeaf>| leaf.map_or(0, |leaf| leaf.elements);
        if elements(others.low_leaf) > elements(carried.low_leaf) {
            Arc::make_mut(carried).low_leaf = others.low_leaf;
        }
        self.forget_settled();
    }

    /// Drops the passes that no step can depend on any more.
    fn forget_settled(&mut self) {
        let Some(carried) = &mut self.0 else {
            return;
        };
        if !carried.passes.iter().all(|pass| pass.matters()) {
            Arc::make_mut(carried).passes.retain(|pass| pass.matters());
        }
        if carried.passes.is_empty() && carried.low_leaf.is_none() {
            self.0 = None;
        }
    }

    /// Returns those whose outcome may still be on the device.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DeferredPass<B>>> {
        self.0.iter().flat_map(|carried| carried.passes.iter())
    }

    /// Whether a step that uses the gradient may still have to be skipped.
    pub(crate) fn matter(&self) -> bool {
        self.iter().any(|pass| pass.matters())
    }

    /// Whether one of the passes overflowed. Waits for the device.
    pub fn overflowed(&self) -> bool {
        self.iter().any(|pass| pass.wait() == Outcome::Overflowed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|carried| carried.passes.is_empty())
    }
}
