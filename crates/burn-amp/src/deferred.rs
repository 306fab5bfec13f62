//! A loss scale that stays on the device: `loss_scale.sync = false`.
//!
//! ```text
//! backward:     loss × scale → Burn's backward pass → one flag per leaf gradient → the next scale; all of it on the device
//! grad_remove:  gradient / scale in F32, or zeros after an overflow
//! optimizer:    SkipOnDevice selects the old or the new parameter by the flag
//! ```
//!
//! The flags travel to the host meanwhile. It looks at them when it needs them: at the latest in the next step of
//! [`SkipOnDevice`](crate::optim::SkipOnDevice), when they have long arrived.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context as TaskContext, Poll, Waker},
};

use burn_amp_core::{DynamicLossScale, LossScaleState, Outcome};
use burn_amp_kernels::{Kernels, loss_scale};
use burn_backend::{
    Backend, ExecutionError, FloatDType, Shape, Slice, TensorData, read_sync, tensor::FloatTensor,
};

use crate::{
    context::Context,
    leaf::LeafGradient,
    ranks::Decision,
    scaler::{Overflow, Scaler},
};

/// A backward pass of which the host does not know yet whether it overflowed.
#[derive(Debug)]
pub struct DeferredPass<B: Backend> {
    /// The state of the loss scale before the pass, see [`loss_scale`].
    pub(crate) before: FloatTensor<B>,
    /// The state after it.
    pub(crate) after: FloatTensor<B>,
    context: &'static Context<B>,
    /// The scale and the outcome, once they have arrived.
    arrived: OnceLock<(f32, Outcome)>,
}

impl<B: Backend> DeferredPass<B> {
    /// The scale and the outcome. Waits for the device.
    pub(crate) fn wait(&self) -> (f32, Outcome) {
        let deferred = &self.context.deferred;
        while self.arrived.get().is_none() && deferred.settle_next(&self.context.scaler) {}
        *self
            .arrived
            .get()
            .expect("no thread panicked when it looked at the flags of this pass")
    }

    /// The scale of the pass as a tensor of rank `rank` with one element, on the device of the state.
    pub(crate) fn scale(&self, rank: usize) -> FloatTensor<B> {
        scale_of::<B>(self.before.clone(), rank)
    }
}

/// The number that a state begins with, as a tensor of rank `rank` with one element.
fn scale_of<B: Backend>(state: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let scale = B::float_slice(state, &[Slice::from(0..1)]);
    B::float_reshape(scale, Shape::from(vec![1; rank]))
}

/// The loss scale of one device as it stands on the device, and the passes whose flags have not been looked at.
pub(crate) struct Deferred<B: Backend>(Mutex<State<B>>);

struct State<B: Backend> {
    /// `None` before the first pass, and after the host has set the scale.
    current: Option<FloatTensor<B>>,
    arriving: VecDeque<Arriving<B>>,
}

/// Flags on their way to the host.
struct Arriving<B: Backend> {
    pass: Arc<DeferredPass<B>>,
    flags: Flags,
    /// What each flag is of.
    gradients: Vec<Overflow>,
}

enum Flags {
    Here(Result<TensorData, ExecutionError>),
    Underway(Pin<Box<dyn Future<Output = Result<TensorData, ExecutionError>> + Send>>),
}

impl<B: Backend> fmt::Debug for Deferred<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { current, arriving } = &*self.lock();
        f.debug_struct("Deferred")
            .field("current", current)
            .field("arriving", &arriving.len())
            .finish()
    }
}

impl<B: Backend> Deferred<B> {
    /// Without [`SkipOnDevice`](crate::optim::SkipOnDevice) nobody looks at the flags in time, and they must not pile up.
    const MOST_ARRIVING: usize = 64;

    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            current: None,
            arriving: VecDeque::new(),
        }))
    }

    /// Passes whose flags have not been looked at.
    pub(crate) fn pending(&self) -> u64 {
        self.lock().arriving.len() as u64
    }

    /// Looks at all flags that are underway.
    pub(crate) fn settle(&self, scaler: &Scaler) {
        while self.settle_next(scaler) {}
    }

    /// Forgets the state on the device: the host has another one.
    pub(crate) fn reset(&self) {
        self.lock().current = None;
    }

    /// Looks at the oldest flags that are underway, if there are any.
    fn settle_next(&self, scaler: &Scaler) -> bool {
        // Flags are looked at in the order of their passes, so the lock is kept until the host's state has moved.
        let mut state = self.lock();
        let Some(arriving) = state.arriving.pop_front() else {
            return false;
        };
        let flags = match arriving.flags {
            Flags::Here(flags) => flags,
            Flags::Underway(flags) => read_sync(flags),
        }
        .expect("the device computed the flags that it was asked for");
        let count = arriving.gradients.len();
        let overflowed: Vec<_> = arriving
            .gradients
            .into_iter()
            .zip(flags.iter::<f32>())
            .filter_map(|(gradient, flag)| (flag != 0.0).then_some(gradient))
            .collect();
        let found_inf = !overflowed.is_empty();
        let scale = scaler.loss_scale().scale;
        let outcome = match found_inf {
            true => Outcome::Overflowed,
            false => Outcome::Finite,
        };
        // Nobody else has set it: flags are taken from the queue once.
        let _ = arriving.pass.arrived.set((scale, outcome));
        let decision = Decision {
            found_inf,
            round: None,
        };
        scaler.update(scale, overflowed, count, decision);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Kernels> Context<B> {
    /// How the scale moves, if it stays on the device.
    pub(crate) fn deferred_scaling(&'static self) -> Option<DynamicLossScale> {
        match self.config.loss_scale.sync {
            true => None,
            false => self.scaler.on_device(),
        }
    }

    /// The state on the device, and its scale as a tensor of rank `rank` with one element.
    pub(crate) fn deferred_scale(
        &'static self,
        device: &B::Device,
        rank: usize,
    ) -> (FloatTensor<B>, FloatTensor<B>) {
        let before = self.deferred.lock().current.clone();
        let before = match before {
            Some(state) => B::float_to_device(state, device),
            None => {
                self.deferred.settle(&self.scaler);
                state_of::<B>(self.scaler.loss_scale(), device)
            }
        };
        let scale = scale_of::<B>(before.clone(), rank);
        (before, scale)
    }

    /// The flags of the gradients of a pass whose state before it was `before`, and the next scale. Reads nothing.
    pub(crate) fn defer(
        &'static self,
        before: FloatTensor<B>,
        by_device: &[Vec<LeafGradient<B>>],
        scaling: DynamicLossScale,
    ) -> Arc<DeferredPass<B>> {
        let device = B::float_device(&before);
        let flags: Vec<_> = by_device
            .iter()
            .filter(|leaves| !leaves.is_empty())
            .map(|leaves| {
                let gradients = leaves.iter().map(|leaf| leaf.gradient.clone()).collect();
                B::float_to_device(B::not_finite(gradients), &device)
            })
            .collect();
        let flags = match flags.is_empty() {
            true => B::float_zeros(Shape::new([1]), &device, FloatDType::F32),
            false => B::float_cat(flags, 0),
        };
        let gradients = by_device
            .iter()
            .flatten()
            .enumerate()
            .map(|(index, leaf)| leaf.overflow(index))
            .collect();

        // Passes of several threads move the scale one after the other, in the order in which the host will count them.
        let mut state = self.deferred.lock();
        let now = state.current.take();
        let now = now.map_or(before.clone(), |now| B::float_to_device(now, &device));
        let after = B::next_loss_scale(now, flags.clone(), scaling);
        let pass = Arc::new(DeferredPass {
            before,
            after: after.clone(),
            context: self,
            arrived: OnceLock::new(),
        });
        // The first poll sends the copy on its way.
        let mut flags: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(B::float_into_data(flags));
        let flags = match flags
            .as_mut()
            .poll(&mut TaskContext::from_waker(Waker::noop()))
        {
            Poll::Ready(flags) => Flags::Here(flags),
            Poll::Pending => Flags::Underway(flags),
        };
        state.current = Some(after);
        state.arriving.push_back(Arriving {
            pass: pass.clone(),
            flags,
            gradients,
        });
        let too_many = state.arriving.len() > Deferred::<B>::MOST_ARRIVING;
        drop(state);
        if too_many {
            self.deferred.settle_next(&self.scaler);
        }
        pass
    }
}

/// A state of the host, on the device.
fn state_of<B: Backend>(host: LossScaleState, device: &B::Device) -> FloatTensor<B> {
    let data = TensorData::new(loss_scale::state(host).to_vec(), [loss_scale::STATE]);
    B::float_from_data(data, device)
}

/// The passes that a gradient comes from: none for most tensors, one for most gradients.
///
/// Every tensor has them, so they are one pointer.
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

    /// Adds those of another gradient that becomes part of this one.
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
            return;
        };
        for other in others.iter() {
            if !passes.iter().any(|pass| Arc::ptr_eq(pass, other)) {
                Arc::make_mut(passes).push(other.clone());
            }
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
