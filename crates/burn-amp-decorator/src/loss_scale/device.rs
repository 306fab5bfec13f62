//! The loss scale kept on the device: `loss_scale.sync = false`.
//!
//! ```text
//! backward:     loss × scale → Burn's backward pass → one flag per parameter's gradient → the next scale
//! grad_remove:  gradient / scale in F32, or zeros after an overflow
//! optimizer:    the step of all parameters writes nothing after an overflow
//! ```
//!
//! All of this happens on the device. Meanwhile the flags are copied to the host, which reads them when it needs them:
//! at the latest in the next step of the optimizer, usually long after they have arrived.

use std::{collections::VecDeque, sync::Arc};

use burn_amp_core::{DynamicLossScale, LossScaleState, Outcome};
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{self as kernels, AmpBackend, Reading, loss_scale};
use burn_backend::{Backend, TensorData, tensor::FloatTensor};

use super::{
    AnyScaling, Scaling,
    deferred::DeferredPass,
    host::HostScale,
    skip::{Checked, Decision, Overflow},
};
use crate::warn::See;

/// The largest number of pending passes. Only an `AmpOptimizer` reads the flags regularly;
/// with other optimizers they must not pile up.
const MOST_PENDING: usize = 64;

/// The loss scale on the device, and the backward passes whose outcome has not reached the host.
#[derive(Debug, Default)]
pub(super) struct DeviceState<B: Backend> {
    /// The state on the device, see [`loss_scale`]; `None` before the first pass and after the host has set the scale.
    current: Option<FloatTensor<B>>,
    /// The passes whose flags have not been read, the oldest first.
    pending: VecDeque<Pending<B>>,
}

/// A backward pass whose flags have not been read.
#[derive(Debug)]
struct Pending<B: Backend> {
    pass: Arc<DeferredPass<B>>,
    /// F32 numbers on their way from the device: one per gradient, 1 if it is not finite.
    flags: Reading,
    /// For each flag, the gradient that it belongs to.
    gradients: Vec<Overflow>,
}

impl<B: Backend> AnyScaling for Scaling<B> {
    fn host(&self) -> &HostScale {
        &self.host
    }

    fn pending(&self) -> u64 {
        self.device.lock().pending.len() as u64
    }

    fn settle_next(&self) -> bool {
        // The host must count the passes in order, so the lock is held until its scale has moved.
        let mut state = self.device.lock();
        let Some((pass, overflowed, gradients)) = state.read_next() else {
            return false;
        };
        let found_inf = !overflowed.is_empty();
        self.host.update(Checked {
            // Only the report of an overflow needs the scale of this very pass.
            scale: if found_inf {
                pass.scale_on_host()
            } else {
                self.host.progress().scale()
            },
            overflowed,
            gradients,
            decision: Decision::alone(found_inf),
            later: state.pending.len(),
            cause: None,
        });
        true
    }

    fn discard(&self) {
        let mut state = self.device.lock();
        while state.read_next().is_some() {}
        state.current = None;
    }
}

impl<B: Backend> DeviceState<B> {
    /// Takes the oldest pending pass and reads its flags. Returns the pass, the gradients that overflowed, and the number
    /// of all its gradients. Incurs a device-to-host read.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver the flags: it was lost, or one of its kernels failed. Without them a step can
    /// neither be made nor be skipped.
    fn read_next(&mut self) -> Option<(Arc<DeferredPass<B>>, Vec<Overflow>, usize)> {
        let Pending {
            pass,
            flags,
            gradients,
        } = self.pending.pop_front()?;
        let flags = flags.wait().unwrap_or_else(|error| {
            panic!(
                "cannot read from the device whether gradients overflowed, so the step can neither be made nor skipped: \
                 {error} {}",
                See("the-device-fails")
            )
        });
        let count = gradients.len();
        let overflowed: Vec<_> = gradients
            .into_iter()
            .zip(flags.iter::<f32>())
            .filter_map(|(gradient, flag)| (flag != 0.0).then_some(gradient))
            .collect();
        pass.arrive(Outcome::of(!overflowed.is_empty()));
        Some((pass, overflowed, count))
    }
}

impl<B: AmpBackend> Scaling<B> {
    /// Returns the state of the scale before the next backward pass, as a tensor on `device`.
    pub(crate) fn state_on(&self, device: &B::Device) -> FloatTensor<B> {
        let current = self.device.lock().current.clone();
        match current {
            Some(state) => B::float_to_device(state, device),
            None => {
                self.settle();
                upload::<B>(self.host.progress().loss_scale, device)
            }
        }
    }

    /// Waits for all passes, and lets the scale move on the host from now on.
    pub(crate) fn move_to_host(&self) {
        self.settle();
        self.device.lock().current = None;
    }

    /// Moves the scale on the device after a backward pass, by its flags: one per gradient, 1 if it is not finite.
    ///
    /// `before` is the state that holds the scale of this loss. Incurs no device-to-host read.
    pub(crate) fn advance(
        &'static self,
        before: FloatTensor<B>,
        flags: FloatTensor<B>,
        gradients: Vec<Overflow>,
        rule: DynamicLossScale,
    ) -> Arc<DeferredPass<B>> {
        let device = device_of::<B>(&before);
        // Passes of several threads move the scale one after the other, in the order in which the host counts them.
        let mut state = self.device.lock();
        let now = match state.current.take() {
            Some(now) => B::float_to_device(now, &device),
            None => before.clone(),
        };
        let after = kernels::loss_scale::next::<B>(now, flags.clone(), rule);
        let pass = Arc::new(DeferredPass::new(before, after.clone(), self));
        state.current = Some(after);
        state.pending.push_back(Pending {
            pass: pass.clone(),
            flags: B::read_later(flags),
            gradients,
        });
        let too_many = state.pending.len() > MOST_PENDING;
        drop(state);
        if too_many {
            self.settle_next();
        }
        pass
    }
}

/// Copies the state of the host to the device.
fn upload<B: Backend>(host: LossScaleState, device: &B::Device) -> FloatTensor<B> {
    let data = TensorData::new(loss_scale::state(host).to_vec(), [loss_scale::STATE]);
    B::float_from_data(data, device)
}
