//! A loss scale of a thread's own, in place of the one that all threads of a device share.

use std::{any::Any, cell::RefCell, marker::PhantomData, ptr};

use burn_backend::Backend;

use super::{LossScale, Scaling};

/// Gives the thread that made it a loss scale of its own, until it is dropped; see
/// [`own_loss_scale`](crate::own_loss_scale).
#[derive(Debug)]
#[must_use = "the thread uses the shared loss scale again when this is dropped"]
pub struct OwnLossScale {
    loss_scale: LossScale,
    /// Keeps the guard on its thread.
    _thread: PhantomData<*const ()>,
}

/// A loss scale that this thread uses in place of a shared one.
struct Own {
    /// The address of the shared loss scale, which is never freed.
    shared: usize,
    scaling: &'static (dyn Any + Send + Sync),
}

thread_local! {
    /// The loss scales of this thread, the latest last.
    static OWN: RefCell<Vec<Own>> = const { RefCell::new(Vec::new()) };
}

impl OwnLossScale {
    /// Uses a new loss scale, with the rule of `shared`, in place of `shared`.
    pub(crate) fn in_place_of<B: Backend>(shared: &'static Scaling<B>) -> Self {
        // Handles and gradients refer to a loss scale for as long as they like, so it is never freed.
        let scaling: &'static Scaling<B> = Box::leak(Box::new(shared.afresh()));
        let own = Own {
            shared: ptr::from_ref(shared).addr(),
            scaling,
        };
        OWN.with_borrow_mut(|all| all.push(own));
        Self {
            loss_scale: LossScale(scaling),
            _thread: PhantomData,
        }
    }

    /// Returns a handle to the loss scale. It can be sent to other threads, and stays valid when the guard is dropped.
    pub fn loss_scale(&self) -> LossScale {
        self.loss_scale
    }
}

impl Drop for OwnLossScale {
    fn drop(&mut self) {
        OWN.with_borrow_mut(|all| all.retain(|own| !ptr::addr_eq(own.scaling, self.loss_scale.0)));
    }
}

impl<B: Backend> Scaling<B> {
    /// Returns the loss scale that this thread uses in place of this one: its own, or this one if it has none.
    pub(crate) fn of_this_thread(&'static self) -> &'static Self {
        let own = OWN.with_borrow(|all| {
            let own = all
                .iter()
                .rev()
                .find(|own| own.shared == ptr::from_ref(self).addr())?;
            Some(own.scaling)
        });
        match own {
            Some(own) => own
                .downcast_ref()
                .expect("a loss scale is replaced by one of the same backend"),
            None => self,
        }
    }
}
