//! The loss scale of one device: its state, the rule by which it moves, and how it is read and saved.
//!
//! * [`skip`]: the report of a skipped step; [`give_up`]: the end of a run that only skips
//! * [`record`]: the loss scale in a checkpoint
//! * [`host`]: the scale as the host knows it; it moves when the outcome of a backward pass is known
//! * [`device`]: the scale kept on the device, for `loss_scale.sync = false`; a [`deferred`] pass, whose overflow flags
//!   reach the host later
//! * [`passes`]: the backward passes that a gradient depends on and whose outcome may still be on the device
//! * [`own`]: a loss scale of a thread's own
//! * [`handle`]: the public view

mod deferred;
mod device;
mod give_up;
mod handle;
mod host;
mod own;
mod passes;
mod record;
mod skip;

use burn_amp_core::{DynamicLossScale, LossScaling};
use burn_backend::Backend;
use parking_lot::Mutex;

pub use handle::LossScale;
pub use own::OwnLossScale;
pub use passes::Passes;
pub use record::{DeviceLossScale, LossScaleRecord, is_loss_scale, nearest_loss_scale};
pub use skip::{Overflow, Skip};

use device::DeviceState;

pub use deferred::DeferredPass;
pub(crate) use deferred::scale_of;
pub(crate) use handle::AnyScaling;
pub(crate) use host::HostScale;
pub(crate) use skip::{Checked, Decision, Readable};

/// The loss scale of one configuration source, backend and device.
#[derive(Debug)]
pub(crate) struct Scaling<B: Backend> {
    /// The scale as the host knows it.
    pub(crate) host: HostScale,
    /// The scale on the device; unused if `sync` is true.
    device: Mutex<DeviceState<B>>,
    /// Whether each backward pass waits for its outcome: `loss_scale.sync`.
    sync: bool,
}

impl<B: Backend> Scaling<B> {
    pub(crate) fn new(rule: LossScaling, sync: bool, max_skips: u32) -> Self {
        Self {
            host: HostScale::new(rule, max_skips),
            device: Mutex::default(),
            sync,
        }
    }

    /// Returns a loss scale in its first state that moves by the same rule.
    fn afresh(&self) -> Self {
        Self::new(self.host.rule, self.sync, self.host.max_skips)
    }

    /// Returns the rule by which the scale moves on the device; `None` if it moves on the host or the loss is not
    /// scaled.
    pub(crate) fn on_device(&self) -> Option<DynamicLossScale> {
        if self.sync {
            None
        } else {
            self.host.as_dynamic()
        }
    }
}
