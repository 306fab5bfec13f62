//! The policy of a device whose backend the caller cannot name: from Burn 0.22 on, a device has no backend type.
//!
//! The caller asks the device something that its backend answers, and the backend of burn-amp, which knows its own type,
//! says meanwhile who it is.

use std::{cell::RefCell, panic::Location, sync::Arc};

use burn_amp_core::Config;

use crate::{
    backend::Amped,
    diagnose::{self, Cause, Recording},
    loss_scale::{LossScale, OwnLossScale},
    policy::{Context, SetupError},
    setup,
};

/// The policy and the loss scale of one device: the functions of [`setup`](crate::setup) on it.
pub trait DevicePolicy {
    /// Puts a configuration in force. `place` calls it.
    ///
    /// # Errors
    ///
    /// As [`configure`](crate::configure).
    fn configure(
        &self,
        config: Config,
        place: &'static Location<'static>,
    ) -> Result<Config, SetupError>;

    /// Returns the configuration in force.
    ///
    /// # Errors
    ///
    /// As [`effective_config`](crate::effective_config).
    fn effective_config(&self) -> Result<Config, SetupError>;

    /// Returns a handle to the loss scale.
    fn loss_scale(&self) -> LossScale;

    /// Gives this thread a loss scale of its own.
    fn own_loss_scale(&self) -> OwnLossScale;

    /// Begins a report of the steps to come, with samples of the values or without.
    fn record(&self, with_samples: bool) -> Recording;

    /// Returns the cause of the last overflow.
    fn last_overflow(&self) -> Option<Arc<Cause>>;
}

/// A device of the backend `A`.
struct On<A: Amped>(A::Device);

impl<A: Amped> DevicePolicy for On<A> {
    fn configure(
        &self,
        config: Config,
        place: &'static Location<'static>,
    ) -> Result<Config, SetupError> {
        Context::<A::Plain>::configure::<A::Source>(&self.0, config, place).map(Context::effective)
    }

    fn effective_config(&self) -> Result<Config, SetupError> {
        setup::effective_config::<A>(&self.0)
    }

    fn loss_scale(&self) -> LossScale {
        setup::loss_scale::<A>(&self.0)
    }

    fn own_loss_scale(&self) -> OwnLossScale {
        setup::own_loss_scale::<A>(&self.0)
    }

    fn record(&self, with_samples: bool) -> Recording {
        match with_samples {
            true => diagnose::record_with_samples::<A>(&self.0),
            false => diagnose::record::<A>(&self.0),
        }
    }

    fn last_overflow(&self) -> Option<Arc<Cause>> {
        diagnose::last_overflow::<A>(&self.0)
    }
}

thread_local! {
    /// Who answered the question that is being asked on this thread; the outer `None` if none is.
    static ANSWER: RefCell<Option<Option<Box<dyn DevicePolicy>>>> = const { RefCell::new(None) };
}

/// Asks a question that the backend of a device answers, and returns the policy of that device; `None` if burn-amp is not in
/// front of it.
pub fn of(question: impl FnOnce()) -> Option<Box<dyn DevicePolicy>> {
    ANSWER.set(Some(None));
    question();
    ANSWER.take().flatten()
}

/// Says, while a question is asked, that the backend `A` computes on `device`.
pub fn answer<A: Amped>(device: &A::Device) {
    ANSWER.with_borrow_mut(|answer| {
        if let Some(answer) = answer {
            *answer = Some(Box::new(On::<A>(device.clone())));
        }
    });
}
