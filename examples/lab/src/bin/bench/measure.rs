//! One run: warm-up, timed steps, and two more to sample the memory.

use std::{
    marker::PhantomData,
    time::{Duration, Instant},
};

use burn::{
    optim::Optimizer,
    tensor::backend::{AutodiffBackend, ExecutionError},
};
use burn_amp::{AmpBackend, scaling::LossScale};
use lab::{
    entry::Entry,
    machine::{Machine, Meter},
    precision::InPrecision,
    recipe::Recipe,
    statistics::percentile,
};
use zoo::{Visitor, ZooModel};

use crate::{
    budget::{Budget, OutOfTime},
    plan::Run,
    training::{Training, training},
};

/// The fewest timed steps: fewer say nothing about the spread.
const MIN_STEPS: usize = 3;

/// The number of steps after the timed ones, to sample the memory. The second one starts with what the first left in
/// memory.
const MEMORY_STEPS: u32 = 2;

/// The reason why a run gave no numbers.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error(transparent)]
    OutOfTime(#[from] OutOfTime),
    #[error(transparent)]
    Device(#[from] ExecutionError),
}

/// The circumstances that all runs share.
pub struct Setting<'a, P: AmpBackend> {
    pub device: &'a P::Device,
    pub machine: &'a Machine,
    pub budget: Budget,
    pub warmup: usize,
    pub steps: usize,
    /// Called after every step that counts for the progress.
    pub on_step: &'a dyn Fn(),
}

/// Measures a model, and fills the entry as far as the run gets.
pub struct Measure<'a, P: AmpBackend> {
    pub setting: &'a Setting<'a, P>,
    pub run: &'a Run,
    pub entry: &'a mut Entry,
}

impl<P: AmpBackend> InPrecision<P> for Measure<'_, P> {
    type Output = Result<(), Stop>;

    fn call<B, R>(self, loss_scale: Option<LossScale>) -> Self::Output
    where
        B: AutodiffBackend<Device = P::Device>,
        R: Recipe<B>,
    {
        let Run { choice, size, .. } = self.run;
        let measure = MeasureOn::<P, B, R> {
            measure: self,
            loss_scale,
            recipe: PhantomData,
        };
        choice.visit(*size, measure)
    }
}

/// [`Measure`] on the backend and by the recipe of a precision.
struct MeasureOn<'a, P: AmpBackend, B, R> {
    measure: Measure<'a, P>,
    loss_scale: Option<LossScale>,
    recipe: PhantomData<(B, R)>,
}

impl<P, B, R> Visitor for MeasureOn<'_, P, B, R>
where
    P: AmpBackend,
    B: AutodiffBackend<Device = P::Device>,
    R: Recipe<B>,
{
    type Output = Result<(), Stop>;

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Self::Output {
        let Measure {
            setting,
            run,
            entry,
        } = self.measure;
        let training = training::<B, R, M>(&model, run.batch_size, setting.device, self.loss_scale);
        setting.measure(training, entry)
    }
}

impl<P: AmpBackend> Setting<'_, P> {
    fn measure<B, M, O>(
        &self,
        mut training: Training<B, M, O>,
        entry: &mut Entry,
    ) -> Result<(), Stop>
    where
        B: AutodiffBackend<Device = P::Device>,
        M: ZooModel,
        O: Optimizer<M::TrainNet<B>, B>,
    {
        entry.params = Some(training.parameters());
        training.sync()?;
        self.time_steps(self.warmup, || training.step())?;
        let times = self.time_steps(self.steps, || training.step())?;
        if times.len() < self.steps.min(MIN_STEPS) {
            return Err(OutOfTime.into());
        }

        let milliseconds = |percent| percentile(&times, percent).map(|seconds| seconds * 1e3);
        let median = percentile(&times, 50.0).ok_or(OutOfTime)?;
        entry.steps = times.len();
        entry.step_ms_median = milliseconds(50.0);
        entry.step_ms_p10 = milliseconds(10.0);
        entry.step_ms_p90 = milliseconds(90.0);
        entry.items_per_s = Some(entry.batch_size as f64 / median);
        let losses = training.losses();
        entry.loss_first = losses.first().copied();
        entry.loss_last = losses.last().copied();
        entry.skipped_steps = Some(training.skipped_steps());
        entry.loss_scale = Some(training.loss_scale());
        if let Some(index) = losses.iter().position(|loss| !loss.is_finite()) {
            entry.error = Some(format!("non-finite loss in step {}", index + 1));
        }

        let span = Duration::try_from_secs_f64(median).unwrap_or(Duration::MAX);
        let meter = &self.machine.meter;
        // The heap also holds what the process allocates only once, so on Flex the first run would seem the largest.
        let counts_tensors = matches!(meter, Meter::Device(_));
        if counts_tensors && self.budget.allows(span.saturating_mul(MEMORY_STEPS)) {
            let steps = || (0..MEMORY_STEPS).try_for_each(|_| training.step());
            let (peak, outcome) = meter.peak_during(steps);
            outcome?;
            entry.peak_memory_bytes = peak;
        }
        Ok(())
    }

    /// Seconds of each of `count` steps; fewer if the next one would not fit into the budget.
    fn time_steps(
        &self,
        count: usize,
        mut step: impl FnMut() -> Result<(), ExecutionError>,
    ) -> Result<Vec<f64>, ExecutionError> {
        let (mut times, mut last) = (Vec::with_capacity(count), Duration::ZERO);
        while times.len() < count && self.budget.allows(last) {
            let start = Instant::now();
            step()?; // ends with a sync: the device may still be at work when the ops are queued
            last = start.elapsed();
            times.push(last.as_secs_f64());
            (self.on_step)();
        }
        Ok(times)
    }
}
