//! The precisions to compare, and what burn-amp reports about a training run.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use burn_amp::{
    Amp, AmpBackend,
    config::{Compute, Config, ConfigError, ConfigSource, SetupError},
    extend::Amped,
    observe::CastCounter,
    scaling::LossScale,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    F32,
    Bf16,
    F16,
}

impl Precision {
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Puts the precision's policy in force.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is wrong or the device cannot compute in the precision.
    pub fn init<B: AmpBackend>(self, device: &B::Device) -> Result<(), SetupError> {
        match self {
            Self::F32 => Ok(()),
            Self::Bf16 => burn_amp::effective_config::<Amp<B, Bf16>>(device).map(drop),
            Self::F16 => burn_amp::effective_config::<Amp<B, F16>>(device).map(drop),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The configuration of `amp.toml` and the `BURN_AMP_*` variables, but with compute dtype BF16.
pub struct Bf16;

impl ConfigSource for Bf16 {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            compute: Compute::Bf16,
            ..Config::load()?
        })
    }
}

/// The configuration of `amp.toml` and the `BURN_AMP_*` variables, but with compute dtype F16.
pub struct F16;

impl ConfigSource for F16 {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            compute: Compute::F16,
            ..Config::load()?
        })
    }
}

/// Reads the loss scale and counts the casts of a training, step by step.
#[derive(Clone)]
pub struct Watch {
    loss_scale: LossScale,
    casts: Arc<CastCounter>,
    readings: Arc<Mutex<Vec<Reading>>>,
}

/// The counters at the start of a step.
#[derive(Clone, Copy)]
struct Reading {
    loss_scale: f32,
    skipped_steps: u64,
    casts: u64,
}

/// What burn-amp did during a training run.
pub struct Watched {
    /// The loss scale of every step.
    pub loss_scales: Vec<f32>,
    /// Whether the step was skipped, for every step.
    pub skipped: Vec<bool>,
    /// The loss scale that the next step would have.
    pub final_loss_scale: f32,
    /// Casts in the forward pass of a training step.
    pub casts_per_step: u64,
}

impl Watch {
    /// Starts to watch `A`, whose policy is in force.
    pub fn start<A: Amped>(device: &A::Device) -> Self {
        let casts = Arc::new(CastCounter::default());
        burn_amp::observe::set_observer(Some(casts.clone()));
        Self {
            loss_scale: burn_amp::loss_scale::<A>(device),
            casts,
            readings: Arc::default(),
        }
    }

    /// Reads the counters. Call it at the start of every step.
    pub fn read(&self) {
        let reading = Reading {
            loss_scale: self.loss_scale.scale(),
            skipped_steps: self.loss_scale.skipped_steps(),
            casts: self.casts.count(),
        };
        self.lock().push(reading);
    }

    /// Ends the observation. Call it after the training.
    pub fn finish(self) -> Watched {
        self.read();
        burn_amp::observe::set_observer(None);

        let readings = self.lock();
        let [steps @ .., end] = readings.as_slice() else {
            unreachable!("it was read just now");
        };
        let pairs = || readings.windows(2).map(|pair| (pair[0], pair[1]));
        // Between epochs and at the end there is more than a step between two readings: the median leaves it out.
        let mut casts: Vec<u64> = pairs()
            .map(|(start, end)| end.casts - start.casts)
            .collect();
        casts.sort_unstable();
        Watched {
            loss_scales: steps.iter().map(|reading| reading.loss_scale).collect(),
            skipped: pairs()
                .map(|(start, end)| end.skipped_steps > start.skipped_steps)
                .collect(),
            final_loss_scale: end.loss_scale,
            casts_per_step: casts.get(casts.len() / 2).copied().unwrap_or(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Reading>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
