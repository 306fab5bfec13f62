//! Values on their way from the device to the host.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use burn_backend::{ExecutionError, TensorData, read_sync};

/// The values of a tensor that were requested from the device, and may not have arrived.
pub struct Reading(State);

type Values = Result<TensorData, ExecutionError>;

enum State {
    Here(Values),
    Underway(Pin<Box<dyn Future<Output = Values> + Send>>),
}

impl Reading {
    /// Begins a read by polling it once.
    pub fn begin(read: impl Future<Output = Values> + Send + 'static) -> Self {
        let mut read: Pin<Box<dyn Future<Output = Values> + Send>> = Box::pin(read);
        // No waker is needed for the read's end, because `wait` polls again.
        Self(
            match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(values) => State::Here(values),
                Poll::Pending => State::Underway(read),
            },
        )
    }

    /// Waits for the values.
    ///
    /// # Errors
    ///
    /// Returns an error if the device cannot deliver them: it was lost, or one of its kernels failed.
    pub fn wait(self) -> Values {
        match self.0 {
            State::Here(values) => values,
            State::Underway(read) => read_sync(read),
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Here(_) => "Here",
            State::Underway(_) => "Underway",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn a_read_is_begun_at_once_and_ended_by_the_wait() {
        static POLLS: AtomicUsize = AtomicUsize::new(0);
        let reading = Reading::begin(poll_fn(|_| match POLLS.fetch_add(1, Ordering::Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(TensorData::from([1.0f32, 2.0]))),
        }));
        assert_eq!(POLLS.load(Ordering::Relaxed), 1);
        let values: Vec<f32> = reading.wait().unwrap().iter().collect();
        assert_eq!(values, [1.0, 2.0]);
        assert_eq!(POLLS.load(Ordering::Relaxed), 2);
    }
}
