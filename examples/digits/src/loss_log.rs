//! The metrics of a training, kept in memory and still readable when it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::train::{
    logger::{InMemoryMetricLogger, MetricLogger},
    metric::{
        MetricDefinition, NumericEntry,
        store::{EpochSummary, MetricsUpdate, Split},
    },
};

/// A metric logger of which the caller keeps a clone.
#[derive(Clone, Default)]
pub struct LossLog(Arc<Mutex<InMemoryMetricLogger>>);

impl LossLog {
    /// The training loss of every step.
    pub fn train_losses(&self, epochs: usize) -> Vec<f64> {
        (1..=epochs)
            .flat_map(|epoch| {
                self.lock()
                    .read_numeric("Loss", epoch, &Split::Train)
                    .expect("the logger in memory always answers")
            })
            .map(|entry| entry.current())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, InMemoryMetricLogger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetricLogger for LossLog {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        self.lock().log(update, epoch, split);
    }

    fn read_numeric(
        &mut self,
        name: &str,
        epoch: usize,
        split: &Split,
    ) -> Result<Vec<NumericEntry>, String> {
        self.lock().read_numeric(name, epoch, split)
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.lock().log_metric_definition(definition);
    }

    fn log_epoch_summary(&mut self, summary: EpochSummary) {
        self.lock().log_epoch_summary(summary);
    }
}
