//! A learning rate scheduler that does not advance on a skipped step.

use burn::{
    lr_scheduler::{LrScheduler, LrSchedulerRecord, module_lr_scheduler::ModuleLrScheduler},
    optim::LearningRate,
};
use burn_amp_decorator::LossScale;

/// The names of what a record has, besides the wrapped scheduler's own.
const INNER: &str = "inner";
const LR: &str = "lr";
const SEEN: &str = "seen";

/// A learning rate scheduler that repeats the learning rate after a skipped step instead of advancing.
///
/// ```no_run
/// use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
/// use burn_amp::optim::HoldOnSkip;
/// # use burn::lr_scheduler::LrScheduler;
/// # let device = burn_tensor::Device::default();
///
/// let scheduler = LinearLrSchedulerConfig::new(0.1, 0.01, 1000).init()?;
/// let mut scheduler = HoldOnSkip::new(scheduler, burn_amp::loss_scale(&device)?);
/// assert!(scheduler.step() <= 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A training loop asks for the learning rate before the step, so the scheduler looks at the outcome of the previous
/// step. With `loss_scale.sync = false` it waits for that outcome. It repeats the rate once, however many backward
/// passes (micro-batches, devices) overflowed since the last call.
///
/// It is a scheduler of one rate, as a `Learner` and `ModuleLrScheduler::with_group` take: the base rate of the one it wraps. Groups of
/// parameters with rates of their own get one each.
#[derive(Clone)]
pub struct HoldOnSkip {
    inner: ModuleLrScheduler,
    loss_scale: LossScale,
    /// The number of skipped steps at the last call.
    seen: u64,
    /// The last learning rate.
    lr: Option<LearningRate>,
}

impl HoldOnSkip {
    /// Wraps `scheduler`, and watches `loss_scale` for skipped steps.
    pub fn new(scheduler: impl Into<ModuleLrScheduler>, loss_scale: LossScale) -> Self {
        Self {
            inner: scheduler.into(),
            loss_scale,
            seen: loss_scale.skipped_steps(),
            lr: None,
        }
    }
}

impl LrScheduler for HoldOnSkip {
    fn step(&mut self) -> LearningRate {
        self.loss_scale.settle();
        let skipped = self.loss_scale.skipped_steps();
        let lr = match self.lr {
            Some(lr) if skipped > self.seen => lr,
            Some(_) | None => self.inner.step().base(),
        };
        self.seen = skipped;
        self.lr = Some(lr);
        lr
    }

    /// The inner record, the last learning rate, and the number of skipped steps at the last call.
    fn to_record(&self) -> LrSchedulerRecord {
        let record = LrSchedulerRecord::new()
            .with_record(INNER, self.inner.to_record())
            .with_scalar(SEEN, self.seen);
        match self.lr {
            Some(lr) => record.with_scalar(LR, lr),
            None => record,
        }
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        self.inner = self.inner.clone().load_record(record.record(INNER));
        self.lr = record.scalar(LR);
        // If the loss scale of the checkpoint was not loaded, its count starts from 0 again.
        let seen = record.scalar(SEEN).unwrap_or_default();
        self.seen = u64::min(seen, self.loss_scale.skipped_steps());
    }
}
