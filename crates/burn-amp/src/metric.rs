//! Metrics for a burn-train `Learner`: the loss scale, the number of skipped steps, and with Burn 0.21 the norm of
//! the gradients.
//!
//! The dashboard and the metric logs show them. A `Learner` computes metrics on a separate thread, so a value may be
//! from a few steps after the one it is logged for. The reason why a step was skipped is one line in `experiment.log`.

use std::{fmt, sync::Arc};

use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

#[cfg(not(burn_0_22))]
use crate::optim::GradientNorm;
use burn_amp_decorator::LossScale;

/// A metric that shows a number of the training process, read when the metric is updated.
///
/// ```text
/// SupervisedTraining::new(…)
///     .metric_train_numeric(AmpMetric::loss_scale(scale))
///     .metric_train_numeric(AmpMetric::skipped_steps(scale))
/// ```
#[derive(Clone)]
pub struct AmpMetric {
    name: MetricName,
    /// The text that the dashboard shows for a value.
    text: fn(f64) -> String,
    read: Arc<dyn Fn() -> f64 + Send + Sync>,
    value: f64,
}

impl AmpMetric {
    /// Shows the loss scale, the factor on the next loss, by its exponent: 16 for a scale of 65536.
    ///
    /// A scale moves by factors of two, often by a dozen in the first steps, so only its logarithm makes a readable plot.
    pub fn loss_scale(loss_scale: LossScale) -> Self {
        let text = |exponent| format!("2^{exponent}");
        Self::new("Log2 loss scale", text, move || {
            f64::from(loss_scale.scale()).log2()
        })
    }

    /// Shows the number of steps skipped so far.
    pub fn skipped_steps(loss_scale: LossScale) -> Self {
        Self::new(
            "Skipped steps",
            |steps| format!("{steps}"),
            move || loss_scale.skipped_steps() as f64,
        )
    }

    /// Shows the global norm of the last step's gradients, before clipping; NaN before the first step.
    ///
    /// An [`AmpOptimizer`](crate::optim::AmpOptimizer) measures it into `norm`. Each value incurs one device-to-host
    /// read on the thread of the metrics.
    ///
    /// ```
    /// # use burn::{optim::AdamConfig, train::metric::Metric};
    /// use burn_amp::{metric::AmpMetric, optim::{AmpOptimizer, GradientNorm}};
    ///
    /// let norm = GradientNorm::default();
    /// let optimizer = AmpOptimizer::new(AdamConfig::new()).with_gradient_norm(&norm);
    /// let metric = AmpMetric::gradient_norm(norm);
    /// # assert_eq!(metric.name().as_str(), "Gradient norm");
    /// ```
    #[cfg(not(burn_0_22))]
    pub fn gradient_norm(norm: GradientNorm) -> Self {
        let text = |norm: f64| {
            if norm != 0.0 && norm < 1e-3 {
                format!("{norm:.2e}")
            } else {
                format!("{norm:.4}")
            }
        };
        Self::new("Gradient norm", text, move || {
            norm.value().unwrap_or(f64::NAN)
        })
    }

    fn read(&mut self) -> SerializedEntry {
        self.value = (self.read)();
        let entry = NumericEntry::Value(self.value);
        SerializedEntry::new((self.text)(self.value), entry.serialize())
    }

    fn new(
        name: &str,
        text: fn(f64) -> String,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: Arc::new(name.to_string()),
            text,
            read: Arc::new(read),
            value: f64::NAN,
        }
    }
}

impl Metric for AmpMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: None,
            higher_is_better: false,
        }
        .into()
    }

    #[cfg(not(burn_0_22))]
    fn update(&mut self, _: &(), _: &MetricMetadata) -> SerializedEntry {
        self.read()
    }

    #[cfg(burn_0_22)]
    fn update(
        &mut self,
        _: &(),
        _: &MetricMetadata,
    ) -> Result<SerializedEntry, burn::tensor::TensorReadError> {
        Ok(self.read())
    }

    #[cfg(burn_0_22)]
    fn compute(&mut self) -> Result<SerializedEntry, burn::tensor::TensorReadError> {
        Ok(self.read())
    }

    fn clear(&mut self) {
        self.value = f64::NAN;
    }
}

#[cfg(not(burn_0_22))]
impl Numeric for AmpMetric {
    fn value(&self) -> NumericEntry {
        NumericEntry::Value(self.value)
    }

    /// The value itself: an average over an epoch has no meaning.
    fn running_value(&self) -> NumericEntry {
        self.value()
    }
}

#[cfg(burn_0_22)]
impl Numeric for AmpMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(NumericEntry::Value(self.value))
    }

    /// The value itself: an average over an epoch has no meaning.
    fn running_value(&self) -> Option<NumericEntry> {
        self.value()
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.value)
    }
}

impl fmt::Debug for AmpMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpMetric")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
