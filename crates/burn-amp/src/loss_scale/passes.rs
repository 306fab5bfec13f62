//! Backward passes whose outcome may still be on the device.
//!
//! With `loss_scale.sync = false` a gradient carries the passes it was computed from, through every op, so that an
//! optimizer can skip the whole sum of several micro-batches. A tensor that an optimizer keeps must not carry them
//! forever: passes whose gradients are known to be finite are dropped when lists are joined, and overflowed ones after
//! [`REMEMBERED`](DeferredPass::REMEMBERED) later passes.

use std::sync::Arc;

use burn_backend::Backend;

use super::deferred::DeferredPass;

/// The backward passes that a gradient was computed from: one for most gradients, none if the host knows their outcome.
///
/// Every gradient has such a list, so it is a single pointer.
#[derive(Debug)]
pub(crate) struct Passes<B: Backend>(Option<Arc<Vec<Arc<DeferredPass<B>>>>>);

impl<B: Backend> Passes<B> {
    #[inline]
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn of(pass: Arc<DeferredPass<B>>) -> Self {
        Self(Some(Arc::new(vec![pass])))
    }

    /// Adds the passes of another gradient that becomes part of this one.
    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        if let Some(others) = &other.0 {
            self.extend(others);
        }
    }

    #[cold]
    fn extend(&mut self, others: &Arc<Vec<Arc<DeferredPass<B>>>>) {
        let Some(passes) = &mut self.0 else {
            self.0 = Some(others.clone());
            return self.forget_settled();
        };
        for other in others.iter() {
            if !passes.iter().any(|pass| Arc::ptr_eq(pass, other)) {
                Arc::make_mut(passes).push(other.clone());
            }
        }
        self.forget_settled();
    }

    /// Drops the passes that no step can depend on any more.
    fn forget_settled(&mut self) {
        let Some(passes) = &mut self.0 else {
            return;
        };
        if !passes.iter().all(|pass| pass.matters()) {
            Arc::make_mut(passes).retain(|pass| pass.matters());
        }
        if passes.is_empty() {
            self.0 = None;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<DeferredPass<B>>> {
        self.0.iter().flat_map(|passes| passes.iter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<B: Backend> Clone for Passes<B> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
