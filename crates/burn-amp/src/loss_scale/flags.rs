//! Overflow flags on their way from the device to the host.

use burn_amp_kernels::{AmpBackend, Reading};
use burn_backend::tensor::FloatTensor;

use crate::warn::See;

/// The F32 flags of a backward pass, requested from the device: one per gradient, 1 if the gradient is not finite.
#[derive(Debug)]
pub(crate) struct Flags(Reading);

impl Flags {
    /// Requests the flags without waiting for them.
    pub(crate) fn request<B: AmpBackend>(flags: FloatTensor<B>) -> Self {
        Self(B::read_later(flags))
    }

    /// Waits for the flags. Incurs a device-to-host read.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver them: it was lost, or one of its kernels failed. Without the flags a step
    /// can neither be made nor be skipped.
    pub(crate) fn wait(self) -> Vec<bool> {
        match self.0.wait() {
            Ok(flags) => flags.iter::<f32>().map(|flag| flag != 0.0).collect(),
            Err(error) => panic!(
                "cannot read from the device whether gradients overflowed, so the step can neither be made nor \
                 skipped: {error} {}",
                See("the-device-fails")
            ),
        }
    }
}
