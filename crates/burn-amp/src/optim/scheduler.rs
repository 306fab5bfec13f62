//! A learning rate scheduler that does not advance on a skipped step.

use burn::{lr_scheduler::LrScheduler, optim::LearningRate, tensor::backend::Backend};

use burn_amp_decorator::LossScale;

/// A learning rate scheduler that repeats the learning rate after a skipped step instead of advancing.
///
/// ```
/// # use burn::{backend::Flex, lr_scheduler::{LrScheduler, linear::LinearLrSchedulerConfig}};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let device = Default::default();
/// use burn_amp::optim::HoldOnSkip;
///
/// let scheduler = LinearLrSchedulerConfig::new(0.1, 0.01, 1000).init()?;
/// let mut scheduler = HoldOnSkip::new(scheduler, burn_amp::loss_scale::<B>(&device));
/// assert!(scheduler.step() <= 0.1);
/// # Ok::<(), String>(())
/// ```
///
/// A training loop asks for the learning rate before the step, so the scheduler looks at the outcome of the previous
/// step. With `loss_scale.sync = false` it waits for that outcome. It repeats the rate once, however many backward
/// passes (micro-batches, devices) overflowed since the last call.
#[derive(Clone, Debug)]
pub struct HoldOnSkip<S> {
    inner: S,
    loss_scale: LossScale,
    /// The number of skipped steps at the last call.
    seen: u64,
    /// The last learning rate.
    lr: Option<LearningRate>,
}

impl<S> HoldOnSkip<S> {
    /// Wraps `scheduler`, and watches `loss_scale` for skipped steps.
    pub fn new(scheduler: S, loss_scale: LossScale) -> Self {
        Self {
            inner: scheduler,
            loss_scale,
            seen: loss_scale.skipped_steps(),
            lr: None,
        }
    }
}

impl<S: LrScheduler> LrScheduler for HoldOnSkip<S> {
    /// The inner record, the last learning rate, and the number of skipped steps at the last call.
    type Record<B: Backend> = Held<S::Record<B>>;

    fn step(&mut self) -> LearningRate {
        self.loss_scale.settle();
        let skipped = self.loss_scale.skipped_steps();
        let lr = match self.lr {
            Some(lr) if skipped > self.seen => lr,
            Some(_) | None => self.inner.step(),
        };
        self.seen = skipped;
        self.lr = Some(lr);
        lr
    }

    fn to_record<B: Backend>(&self) -> Self::Record<B> {
        (self.inner.to_record::<B>(), self.lr, self.seen)
    }

    fn load_record<B: Backend>(self, (inner, lr, seen): Self::Record<B>) -> Self {
        Self {
            inner: self.inner.load_record::<B>(inner),
            lr,
            // If the loss scale of the checkpoint was not loaded, its count starts from 0 again.
            seen: seen.min(self.loss_scale.skipped_steps()),
            ..self
        }
    }
}

type Held<R> = (R, Option<LearningRate>, u64);
