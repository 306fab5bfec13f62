//! Records a [`Report`].

mod sums;

use std::{fmt, sync::Arc};

use burn_amp_core::{
    health::Look,
    report::{PrecisionSnapshot, Report},
};
use burn_amp_kernels::made;
use burn_backend::Backend;

use self::sums::Recorder;
use crate::{
    backend::Amped,
    cast::{
        sample,
        watchers::{self, Watcher},
    },
    policy::Context,
};

/// Records the calls of ops until [`finish`](Recording::finish), for a report about backend `A` on `device`.
///
/// * It records the calls of all threads and of all policies of the process. Of the backward pass of each it records the
///   gradient with which it begins.
/// * The number of steps is that of the backward passes on `device` meanwhile.
/// * A call takes some microseconds more meanwhile; the stack of each is walked.
///
/// ```
/// # use burn::{backend::Flex, nn::LinearConfig, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InBf16;
/// # impl ConfigSource for InBf16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InBf16>>;
///
/// let device = Default::default();
/// let model = LinearConfig::new(16, 8).init::<B>(&device);
/// let recording = burn_amp::diagnose::record::<B>(&device);
/// model.forward(Tensor::<B, 2>::ones([4, 16], &device)).sum().backward();
/// let report = recording.finish();
/// assert_eq!(report.steps, 1);
/// assert_eq!(report.totals().low_flops, 2 * 4 * 16 * 8);
/// println!("{}", report.to_text());
/// std::fs::write(std::env::temp_dir().join("report.html"), report.to_html())?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
pub fn record<A: Amped>(device: &A::Device) -> Recording {
    let context = Context::<A::Plain>::of::<A::Source>(device);
    Recording::begin(context, &A::Plain::name(device), false)
}

/// Records as [`record`] does, and reads a sample of the values in each cast to half precision: how many overflow, and how
/// many become 0.
///
/// At most 4096 values of a cast are read, evenly apart. Each read waits for the device.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InF16;
/// # impl ConfigSource for InF16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::F16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Amp<Flex, InF16>;
///
/// let device = Default::default();
/// let recording = burn_amp::diagnose::record_with_samples::<B>(&device);
/// let x = Tensor::<B, 2>::from_floats([[1e-9, 1.0], [1e6, 0.0]], &device);
/// let _ = x.matmul(Tensor::eye(2, &device));
/// let sample = recording.finish().totals().sample;
/// assert_eq!((sample.values, sample.overflowed, sample.flushed), (8, 1, 1));
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
pub fn record_with_samples<A: Amped>(device: &A::Device) -> Recording {
    let context = Context::<A::Plain>::of::<A::Source>(device);
    Recording::begin(context, &A::Plain::name(device), true)
}

/// Records what ran in which precision during a step, for a test that compares it with a file in the repository: a layer
/// that moves to F32, or a cast that appears, fails the test.
///
/// The first step of a program casts what later steps need not cast again, so take the second.
///
/// ```
/// # use burn::{backend::Flex, nn::LinearConfig, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InBf16;
/// # impl ConfigSource for InBf16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InBf16>>;
///
/// let device = Default::default();
/// let model = LinearConfig::new(16, 8).with_bias(false).init::<B>(&device);
/// let step = || model.forward(Tensor::<B, 2>::ones([4, 16], &device)).sum().backward();
/// step();
/// let snapshot = burn_amp::diagnose::snapshot::<B>(&device, || { step(); });
/// // In a test: `snapshot.compare(include_str!("precision.txt"))`.
/// assert!(snapshot.to_string().contains("linear  f32, f32 -> bf16  x1"));
/// assert!(snapshot.compare(&snapshot.to_string()).is_ok());
/// ```
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
pub fn snapshot<A: Amped>(device: &A::Device, step: impl FnOnce()) -> PrecisionSnapshot {
    let recording = record::<A>(device);
    step();
    PrecisionSnapshot::of(&recording.finish())
}

/// A report in the making; see [`record`]. Dropping it ends the recording without a report.
pub struct Recording {
    recorder: Arc<Recorder>,
    /// Returns the number of backward passes so far.
    passes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Their number at the beginning.
    passes_before: u64,
    /// Returns the steps of optimizers that were looked at since the beginning.
    looks: Box<dyn Fn() -> Vec<Look> + Send + Sync>,
    /// The report, without calls and steps.
    head: Report,
    /// Whether values are sampled.
    samples: bool,
}

impl Recording {
    /// Begins to record.
    pub(super) fn begin<B: Backend>(
        context: &'static Context<B>,
        backend: &str,
        samples: bool,
    ) -> Self {
        let recorder = Arc::new(Recorder::default());
        if samples {
            sample::begin();
        }
        made::begin();
        watchers::add(recorder.clone());
        let last = context.health.looks().last().map_or(0, |look| look.step);
        Self {
            recorder,
            samples,
            passes: Box::new(|| context.leaves.passes()),
            passes_before: context.leaves.passes(),
            looks: Box::new(move || {
                let looks = context.health.looks().into_iter();
                looks.filter(|look| look.step > last).collect()
            }),
            head: Report {
                scales_loss: context.scales_losses(),
                ..Report::new(
                    backend,
                    context.config.preset.name(),
                    context.policy.compute(),
                )
            },
        }
    }

    /// Returns the number of backward passes since the beginning.
    pub(super) fn steps(&self) -> u64 {
        (self.passes)() - self.passes_before
    }

    /// Ends the recording and returns the report. Without a backward pass meanwhile it is one of 1 step.
    pub fn finish(self) -> Report {
        let mut report = Report {
            steps: self.steps().max(1),
            calls: std::mem::take(&mut *self.recorder.calls.lock())
                .into_values()
                .collect(),
            kept: match std::mem::take(&mut *self.recorder.keeping.lock()).finish() {
                None if self.steps() == 0 => Some(Vec::new()),
                kept => kept,
            },
            gradients: std::mem::take(&mut *self.recorder.gradients.lock()).finish(),
            health: (self.looks)(),
            ..self.head.clone()
        };
        report.sort();
        report
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let recorder: Arc<dyn Watcher> = self.recorder.clone();
        watchers::remove(&recorder);
        made::end();
        if self.samples {
            sample::end();
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("steps", &self.steps())
            .finish_non_exhaustive()
    }
}
