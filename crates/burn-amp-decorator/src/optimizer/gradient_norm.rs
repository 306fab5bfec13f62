//! The global norm of the gradients of the last step.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

/// The global norm of the gradients of the last step, measured by an `AmpOptimizer` or a `LossScaleOptimizer`. All clones show the same value.
#[derive(Clone, Default)]
pub struct GradientNorm(Arc<Mutex<Norm>>);

#[derive(Default)]
enum Norm {
    #[default]
    Unknown,
    /// The norm is still on the device: reading it waits for the step.
    OnDevice(Box<dyn FnOnce() -> f64 + Send>),
    Read(f64),
}

impl GradientNorm {
    /// Returns the norm; `None` before the first step. The first call after a step incurs one device-to-host read.
    ///
    /// A step that was skipped on the host leaves the norm of the previous step. With `loss_scale.sync = false`, the
    /// norm of a skipped step is that of the parts that did not overflow.
    pub fn value(&self) -> Option<f64> {
        let mut norm = self.0.lock();
        let value = match std::mem::take(&mut *norm) {
            Norm::Unknown => return None,
            Norm::OnDevice(read) => read(),
            Norm::Read(value) => value,
        };
        *norm = Norm::Read(value);
        Some(value)
    }

    /// Sets the norm of a step that was made, which `read` reads from the device.
    #[doc(hidden)]
    pub fn set(&self, read: impl FnOnce() -> f64 + Send + 'static) {
        *self.0.lock() = Norm::OnDevice(Box::new(read));
    }
}

impl fmt::Debug for GradientNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GradientNorm")
    }
}
