//! The loss scale of one device as it stands, and the handle to read it.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use burn_amp_core::{Dtype, DynamicLossScale, LossScaleState, LossScaling, Outcome};
use burn_backend::Shape;

use crate::{context::Context, graph::AmpBackend, ranks::Decision, record::LossScaleRecord};

/// The loss scale of one policy source, backend and device.
#[derive(Debug)]
pub(crate) struct Scaler {
    scaling: LossScaling,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    loss_scale: LossScaleState,
    steps: u64,
    skipped_steps: u64,
    last_skip: Option<Skip>,
    /// Passes that ranks took together, see [`ranks`](crate::ranks).
    rounds: u64,
    /// The last skip, if the scale could not fall any more.
    exhausted: Option<Skip>,
}

/// Why a step was skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Skip {
    /// The scaled backward pass, counted from 0.
    pub step: u64,
    /// The loss scale of that pass.
    pub scale: f32,
    /// The gradients that were not finite; none if only another rank's were not.
    pub overflowed: Vec<Overflow>,
    /// How many gradients there were.
    pub gradients: usize,
}

/// A gradient that was not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Overflow {
    /// Which gradient it was, in the order in which the live parameters were made.
    pub index: usize,
    /// Its shape.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: Dtype,
}

/// The loss scale of one device, wherever it is kept.
pub(crate) trait DeviceScale: fmt::Debug + Send + Sync {
    /// What the host knows.
    fn scaler(&self) -> &Scaler;

    /// Backward passes of which the host does not know the outcome.
    fn pending(&self) -> u64;

    /// Waits for their outcomes.
    fn settle(&self);

    /// The state after all passes, for a checkpoint.
    fn record(&self) -> LossScaleRecord;

    /// Goes on from a saved state.
    fn load(&self, record: LossScaleRecord);
}

impl Scaler {
    pub(crate) fn new(scaling: LossScaling) -> Self {
        let state = State {
            loss_scale: scaling.start(),
            steps: 0,
            skipped_steps: 0,
            last_skip: None,
            rounds: 0,
            exhausted: None,
        };
        Self {
            scaling,
            state: Mutex::new(state),
        }
    }

    /// The scale and what it remembers, as far as the host knows.
    pub(crate) fn loss_scale(&self) -> LossScaleState {
        self.lock().loss_scale
    }

    /// How the scale moves, in the form in which it is moved on the device; `None` if the loss is not scaled.
    pub(crate) fn on_device(&self) -> Option<DynamicLossScale> {
        match self.scaling {
            LossScaling::NoScale => None,
            LossScaling::Static(scale) => Some(DynamicLossScale {
                init: scale,
                growth_factor: 1.0,
                backoff_factor: 1.0,
                min: scale,
                max: scale,
                ..DynamicLossScale::default()
            }),
            LossScaling::Dynamic(dynamic) => Some(dynamic),
        }
    }

    /// Passes that ranks took together.
    pub(crate) fn rounds(&self) -> u64 {
        self.lock().rounds
    }

    pub(crate) fn record(&self) -> LossScaleRecord {
        let state = self.lock();
        LossScaleRecord {
            loss_scale: state.loss_scale,
            steps: state.steps,
            skipped_steps: state.skipped_steps,
        }
    }

    pub(crate) fn load(&self, record: LossScaleRecord) {
        let LossScaleRecord {
            loss_scale,
            steps,
            skipped_steps,
        } = record;
        let mut state = self.lock();
        state.loss_scale = self.scaling.resume(loss_scale);
        state.steps = steps;
        state.skipped_steps = skipped_steps;
    }

    /// The factor on the next loss, or `None` if the loss is not scaled.
    pub(crate) fn scale(&self) -> Option<f32> {
        match self.scaling {
            LossScaling::NoScale => None,
            LossScaling::Static(_) | LossScaling::Dynamic(_) => Some(self.lock().loss_scale.scale),
        }
    }

    /// Moves the scale after a backward pass whose loss was scaled by `scale`, unless another rank did in the same round.
    ///
    /// # Panics
    ///
    /// If the gradients overflowed although the scale was at its minimum: the overflow is not the scale's.
    pub(crate) fn update(
        &self,
        scale: f32,
        overflowed: Vec<Overflow>,
        gradients: usize,
        decision: Decision,
    ) -> Outcome {
        let outcome = match decision.found_inf {
            true => Outcome::Overflowed,
            false => Outcome::Finite,
        };
        let mut state = self.lock();
        match decision.round {
            // Another rank has moved the scale.
            Some(round) if round < state.rounds => {
                let exhausted = state.exhausted.clone();
                drop(state);
                return match (outcome, exhausted) {
                    (Outcome::Overflowed, Some(skip)) => panic_at_min(&skip),
                    (Outcome::Overflowed, None) | (Outcome::Finite, _) => outcome,
                };
            }
            Some(_) => state.rounds += 1,
            None => {}
        }
        let step = state.steps;
        state.steps += 1;
        if outcome == Outcome::Finite {
            state.loss_scale = self.scaling.next(state.loss_scale, outcome);
            return outcome;
        }

        let skip = Skip {
            step,
            scale,
            overflowed,
            gradients,
        };
        let exhausted = match &self.scaling {
            LossScaling::Dynamic(dynamic) => dynamic.is_at_min(state.loss_scale),
            LossScaling::NoScale | LossScaling::Static(_) => false,
        };
        state.loss_scale = self.scaling.next(state.loss_scale, outcome);
        state.skipped_steps += 1;
        state.last_skip = Some(skip.clone());
        state.exhausted = exhausted.then(|| skip.clone());
        let next = state.loss_scale.scale;
        drop(state);

        if exhausted {
            panic_at_min(&skip);
        }
        tracing::info!(
            "burn-amp: step skipped: {skip}; the next scale is {}",
            f64::from(next)
        );
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panic_at_min(skip: &Skip) -> ! {
    panic!(
        "loss scale: overflow at the minimum {}, so the loss or an activation overflows by itself (loss_scale.min in \
         amp.toml); {skip}",
        f64::from(skip.scale)
    )
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let Self {
            step,
            scale,
            overflowed,
            gradients,
        } = self;
        write!(f, "step {step}, loss scale {}: ", f64::from(*scale))?;
        if overflowed.is_empty() {
            return f.write_str("gradients not finite on another rank");
        }
        write!(
            f,
            "{} of {gradients} gradients not finite (",
            overflowed.len()
        )?;
        for (
            at,
            Overflow {
                index,
                shape,
                dtype,
            },
        ) in overflowed.iter().take(SHOWN).enumerate()
        {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}#{index} {dtype} {:?}", shape.as_slice())?;
        }
        match overflowed.len() > SHOWN {
            true => f.write_str(", …)"),
            false => f.write_str(")"),
        }
    }
}

/// A handle to read the loss scale of one device; see [`loss_scale`].
#[derive(Clone, Copy, Debug)]
pub struct LossScale(&'static dyn DeviceScale);

/// The loss scale of backend `A`'s policy source on `device`.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # struct InF16;
/// # impl burn_amp::PolicySource for InF16 {
/// #     fn config() -> Result<burn_amp::Config, burn_amp::ConfigError> {
/// #         Ok(burn_amp::Config { compute: burn_amp::Compute::F16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InF16>>;
///
/// let device = Default::default();
/// let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &device).require_grad();
/// let grads = weight.clone().sum().backward();
/// assert_eq!(weight.grad(&grads).unwrap().to_data().to_vec::<f32>().unwrap(), [1.0, 1.0]);
///
/// let scale = burn_amp::loss_scale::<B>(&device);
/// assert_eq!((scale.scale(), scale.growth_tracker(), scale.skipped_steps()), (65536.0, 1, 0));
/// ```
///
/// # Panics
///
/// If no policy is in force yet and the configuration is wrong; see [`init`](crate::init).
pub fn loss_scale<A: AmpBackend>(device: &A::Device) -> LossScale {
    LossScale(Context::<A::Plain>::of::<A::Source>(device))
}

impl LossScale {
    /// The factor on the next loss; 1 if the loss is not scaled.
    pub fn scale(&self) -> f32 {
        self.0.scaler().lock().loss_scale.scale
    }

    /// Backward passes that the numbers of this handle do not tell of yet, because their outcome is on the device:
    /// 0 unless `loss_scale.sync = false`.
    pub fn pending_steps(&self) -> u64 {
        self.0.pending()
    }

    /// Waits for the outcomes of all backward passes; then the numbers of this handle are those of the last one.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Finite steps since the scale last changed.
    pub fn growth_tracker(&self) -> u32 {
        self.0.scaler().lock().loss_scale.streak
    }

    /// Scaled backward passes so far.
    pub fn steps(&self) -> u64 {
        self.0.scaler().lock().steps
    }

    /// Backward passes whose gradients overflowed.
    pub fn skipped_steps(&self) -> u64 {
        self.0.scaler().lock().skipped_steps
    }

    /// The state, for a checkpoint.
    ///
    /// ```
    /// # use burn::{backend::Flex, record::{DefaultRecorder, Recorder}};
    /// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
    /// # let (device, recorder) = (Default::default(), DefaultRecorder::new());
    /// # let path = std::env::temp_dir().join(format!("burn-amp-{}", std::process::id()));
    /// // with the model and the optimizer:
    /// Recorder::<B>::record(&recorder, burn_amp::loss_scale::<B>(&device).record(), path.clone())?;
    /// // and when training resumes:
    /// burn_amp::loss_scale::<B>(&device).load(Recorder::<B>::load(&recorder, path, &device)?);
    /// # Ok::<(), burn::record::RecorderError>(())
    /// ```
    ///
    /// [`LossScaleOptimizer`](crate::optim::LossScaleOptimizer) has it in its own record.
    pub fn record(&self) -> LossScaleRecord {
        self.0.record()
    }

    /// Goes on from a saved state.
    ///
    /// Where the configuration has changed since, it goes first: a static scale stays what it says, a dynamic one is
    /// brought between its `min` and `max`.
    pub fn load(&self, record: LossScaleRecord) {
        self.0.load(record);
    }

    /// Why the last skipped step was skipped.
    pub fn last_skip(&self) -> Option<Skip> {
        self.0.scaler().lock().last_skip.clone()
    }
}
