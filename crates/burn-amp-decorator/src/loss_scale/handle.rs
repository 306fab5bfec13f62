//! The public view of a loss scale.

use std::fmt;

use super::{host::HostScale, record::LossScaleRecord, skip::Skip};

/// A [`Scaling`](super::Scaling) whose backend type is erased.
pub(crate) trait AnyScaling: fmt::Debug + Send + Sync {
    /// Returns the scale as the host knows it.
    fn host(&self) -> &HostScale;

    /// Returns the number of backward passes whose outcome has not reached the host.
    fn pending(&self) -> u64;

    /// Waits for the outcome of the oldest of them and brings the host up to date; returns whether there was one.
    fn settle_next(&self) -> bool;

    /// Waits for the outcomes of these passes without moving the host's scale, because it is about to be set, and forgets
    /// the scale on the device.
    fn discard(&self);

    /// Waits for the outcomes of these passes and brings the host up to date.
    fn settle(&self) {
        while self.settle_next() {}
    }

    /// Returns the state after all passes, for a checkpoint.
    fn record(&self) -> LossScaleRecord {
        self.settle();
        self.host().progress()
    }

    /// Continues from a saved state.
    fn load(&self, record: LossScaleRecord) {
        self.discard();
        self.host().load(record);
    }

    /// Starts afresh, as before the first step.
    fn reset(&self) {
        self.discard();
        self.host().reset();
    }
}

/// A handle to the loss scale of one device; see [`loss_scale`](crate::loss_scale()).
#[doc(alias = "GradScaler")]
#[derive(Clone, Copy, Debug)]
pub struct LossScale(pub(crate) &'static dyn AnyScaling);

impl LossScale {
    /// Returns the factor on the next loss, a power of two; 1 if the loss is not scaled.
    #[doc(alias = "get_scale")]
    pub fn scale(&self) -> f32 {
        self.0.host().progress().scale()
    }

    /// Returns the number of backward passes whose outcome has not reached the host, so that the other counters do not
    /// include them yet. Always 0 unless `loss_scale.sync = false`.
    pub fn pending_steps(&self) -> u64 {
        self.0.pending()
    }

    /// Waits for the outcomes of all backward passes; afterwards [`pending_steps`](Self::pending_steps) is 0.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Returns the number of finite steps since the scale last changed; 0 while the first scale is searched for.
    pub fn growth_tracker(&self) -> u32 {
        self.0.host().progress().growth_tracker()
    }

    /// Returns the number of scaled backward passes.
    pub fn steps(&self) -> u64 {
        self.0.host().progress().steps
    }

    /// Returns the number of backward passes whose gradients overflowed.
    pub fn skipped_steps(&self) -> u64 {
        self.0.host().progress().skipped_steps
    }

    /// Returns the reason why a step was last skipped; `None` if none was.
    pub fn last_skip(&self) -> Option<Skip> {
        self.0.host().state().last_skip.clone()
    }

    /// Returns the state, for a checkpoint. Waits for pending passes.
    ///
    /// ```
    /// # use burn::{backend::Flex, record::{DefaultRecorder, Recorder}};
    /// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
    /// # let (device, recorder) = (Default::default(), DefaultRecorder::new());
    /// # let path = std::env::temp_dir().join(format!("burn-amp-{}", std::process::id()));
    /// // Save it with the model and the optimizer:
    /// Recorder::<B>::record(&recorder, burn_amp::loss_scale::<B>(&device).record(), path.clone())?;
    /// // Restore it when training resumes:
    /// burn_amp::loss_scale::<B>(&device).load(Recorder::<B>::load(&recorder, path, &device)?);
    /// # Ok::<(), burn::record::RecorderError>(())
    /// ```
    ///
    /// You do not need this with an `AmpOptimizer`, whose record contains it.
    #[doc(alias = "state_dict")]
    pub fn record(&self) -> LossScaleRecord {
        self.0.record()
    }

    /// Continues from a saved state.
    ///
    /// The configuration in force overrides the record: a static scale keeps its configured value, and a dynamic one is
    /// clamped between its `min` and `max`.
    #[doc(alias = "load_state_dict")]
    pub fn load(&self, record: LossScaleRecord) {
        self.0.load(record);
    }

    /// Starts afresh: the scale, the counters and the last skip are those before the first step.
    ///
    /// Call it between two runs in one process, or the second begins at the scale at which the first ended. Outcomes that
    /// are still on the device are waited for, and then do not count.
    ///
    /// ```
    /// # use burn::{backend::Flex, tensor::Tensor};
    /// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
    /// # let device = Default::default();
    /// # let train = |_rate: f64| ();
    /// for learning_rate in [1e-2, 1e-3] {
    ///     burn_amp::loss_scale::<B>(&device).reset();
    ///     train(learning_rate);
    /// }
    /// ```
    pub fn reset(&self) {
        self.0.reset();
    }
}
