//! A hook into Burn's training loop.

use burn::{lr_scheduler::LrScheduler, optim::LearningRate, prelude::*};

/// A learning rate scheduler that calls a function at the start of every training step.
///
/// The loop asks for the learning rate once per step, on the training thread, right before the forward pass. A metric
/// cannot see the state at that moment, because metrics are computed on a separate thread, some steps later.
#[derive(Clone, Debug)]
pub struct EachStep<S, F> {
    schedule: S,
    call: F,
}

impl<S, F> EachStep<S, F> {
    pub fn new(schedule: S, call: F) -> Self {
        Self { schedule, call }
    }
}

impl<S: LrScheduler, F: Fn() + Clone + Send + Sync> LrScheduler for EachStep<S, F> {
    type Record<B: Backend> = S::Record<B>;

    fn step(&mut self) -> LearningRate {
        (self.call)();
        self.schedule.step()
    }

    fn to_record<B: Backend>(&self) -> Self::Record<B> {
        self.schedule.to_record::<B>()
    }

    fn load_record<B: Backend>(self, record: Self::Record<B>) -> Self {
        Self {
            schedule: self.schedule.load_record::<B>(record),
            ..self
        }
    }
}
