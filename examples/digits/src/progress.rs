//! One line per epoch.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write, stderr},
};

use burn::train::{
    metric::{MetricDefinition, MetricEntry, MetricId, NumericEntry},
    renderer::{
        EvaluationName, EvaluationProgress, MetricState, MetricsRenderer,
        MetricsRendererEvaluation, MetricsRendererTraining, ProgressType, TrainingProgress,
    },
};

/// Prints the results of each epoch, and on a terminal the progress of the current one.
pub struct Progress {
    name: String,
    metrics: HashMap<MetricId, String>,
    train: Means,
    valid: Means,
}

impl Progress {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            metrics: HashMap::new(),
            train: Means::default(),
            valid: Means::default(),
        }
    }

    fn numeric(&self, state: MetricState) -> Option<(String, NumericEntry)> {
        let (MetricEntry { metric_id, .. }, value) = match state {
            MetricState::Numeric(entry, value) => (entry, value),
            MetricState::Generic(_) => return None,
        };
        Some((self.metrics.get(&metric_id)?.clone(), value))
    }

    fn epoch(&self, progress: &TrainingProgress) -> String {
        let epoch = &progress.global_progress;
        format!(
            "{:<4}  epoch {}/{}",
            self.name, epoch.items_processed, epoch.items_total
        )
    }
}

impl MetricsRendererTraining for Progress {
    fn update_train(&mut self, state: MetricState) {
        if let Some((name, value)) = self.numeric(state) {
            self.train.add(name, value);
        }
    }

    fn update_valid(&mut self, state: MetricState) {
        if let Some((name, value)) = self.numeric(state) {
            self.valid.add(name, value);
        }
    }

    fn render_train(&mut self, progress: TrainingProgress, _: Vec<ProgressType>) {
        let Some(items) = progress
            .progress
            .as_ref()
            .filter(|_| stderr().is_terminal())
        else {
            return;
        };
        let percent = 100 * items.items_processed / items.items_total;
        eprint!("\r{}  {percent:>3} %", self.epoch(&progress));
        // A terminal that is gone is no reason to stop the training.
        stderr().flush().ok();
    }

    fn render_valid(&mut self, progress: TrainingProgress, _: Vec<ProgressType>) {
        let items = progress.progress.as_ref();
        if items.is_none_or(|items| items.items_processed < items.items_total) {
            return;
        }
        if stderr().is_terminal() {
            eprint!("\r");
        }
        println!(
            "{}  train loss {:.4}  test loss {:.4}  test accuracy {:.1} %",
            self.epoch(&progress),
            self.train.of("Loss"),
            self.valid.of("Loss"),
            self.valid.of("Accuracy"),
        );
        self.train = Means::default();
        self.valid = Means::default();
    }
}

impl MetricsRendererEvaluation for Progress {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}

    fn render_test(&mut self, _: EvaluationProgress, _: Vec<ProgressType>) {}
}

impl MetricsRenderer for Progress {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.metrics.insert(definition.metric_id, definition.name);
    }
}

/// The mean of each metric over an epoch, each batch with the weight of its size.
#[derive(Default)]
struct Means(HashMap<String, (f64, usize)>);

impl Means {
    fn add(&mut self, name: String, value: NumericEntry) {
        let (value, items) = match value {
            NumericEntry::Value(value) => (value, 1),
            NumericEntry::Aggregated {
                aggregated_value,
                count,
            } => (aggregated_value, count),
        };
        let (sum, all) = self.0.entry(name).or_default();
        *sum += value * items as f64;
        *all += items;
    }

    fn of(&self, name: &str) -> f64 {
        self.0
            .get(name)
            .map_or(f64::NAN, |(sum, items)| sum / *items as f64)
    }
}
