//! Overflow flags on their way from the device to the host.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use burn_backend::{Backend, ExecutionError, TensorData, read_sync, tensor::FloatTensor};

use crate::warn::See;

/// The F32 flags of a backward pass, requested from the device: one per gradient, 1 if the gradient is not finite.
pub(crate) enum Flags {
    Here(Result<TensorData, ExecutionError>),
    Underway(Pin<Box<dyn Future<Output = Result<TensorData, ExecutionError>> + Send>>),
}

impl Flags {
    /// Requests the flags without waiting for them.
    pub(crate) fn request<B: Backend>(flags: FloatTensor<B>) -> Self {
        let mut flags: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(B::float_into_data(flags));
        // The first poll enqueues the copy. No waker is needed for its end, because `wait` polls again.
        match flags.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(flags) => Self::Here(flags),
            Poll::Pending => Self::Underway(flags),
        }
    }

    /// Waits for the flags. Incurs a device-to-host read.
    ///
    /// # Panics
    ///
    /// Panics if the device cannot deliver them: it was lost, or one of its kernels failed. Without the flags a step
    /// can neither be made nor be skipped.
    pub(crate) fn wait(self) -> Vec<bool> {
        let flags = match self {
            Self::Here(flags) => flags,
            Self::Underway(flags) => read_sync(flags),
        };
        match flags {
            Ok(flags) => flags.iter::<f32>().map(|flag| flag != 0.0).collect(),
            Err(error) => panic!(
                "cannot read from the device whether gradients overflowed, so the step can neither be made nor \
                 skipped: {error} {}",
                See("the-device-fails")
            ),
        }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::Underway(_) => "Underway",
        })
    }
}
