//! The loss scale as the host knows it.

use burn_amp_core::{DynamicLossScale, LossScaleState, LossScaling, Outcome};
use parking_lot::{Mutex, MutexGuard};

use super::{
    record::LossScaleRecord,
    skip::{Decision, Overflow, Skip},
};

/// The loss scale on the host, with the rule by which it moves.
#[derive(Debug)]
pub(crate) struct HostScale {
    rule: LossScaling,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) loss_scale: LossScaleState,
    /// The number of scaled backward passes so far.
    pub(crate) steps: u64,
    /// The number of backward passes that overflowed.
    pub(crate) skipped_steps: u64,
    pub(crate) last_skip: Option<Skip>,
    /// The number of backward passes that the ranks of a data-parallel run made together.
    rounds: u64,
    /// The last skip, if the scale could not fall any further.
    exhausted: Option<Skip>,
}

impl HostScale {
    pub(crate) fn new(rule: LossScaling) -> Self {
        let state = State {
            loss_scale: rule.start(),
            steps: 0,
            skipped_steps: 0,
            last_skip: None,
            rounds: 0,
            exhausted: None,
        };
        Self {
            rule,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the state of the scale, as far as the host knows it.
    pub(crate) fn loss_scale(&self) -> LossScaleState {
        self.state().loss_scale
    }

    /// Returns the factor on the next loss, or `None` if the loss is not scaled.
    pub(crate) fn scale(&self) -> Option<f32> {
        match self.rule {
            LossScaling::NoScale => None,
            LossScaling::Static(_) | LossScaling::Dynamic(_) => Some(self.state().loss_scale.scale),
        }
    }

    /// Returns the rule in the form that the kernel understands; `None` if the loss is not scaled.
    pub(crate) fn as_dynamic(&self) -> Option<DynamicLossScale> {
        match self.rule {
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

    /// Returns the number of backward passes that the ranks of a data-parallel run made together.
    pub(crate) fn rounds(&self) -> u64 {
        self.state().rounds
    }

    pub(crate) fn record(&self) -> LossScaleRecord {
        let state = self.state();
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
        let mut state = self.state();
        state.loss_scale = self.rule.resume(loss_scale);
        state.steps = steps;
        state.skipped_steps = skipped_steps;
    }

    /// Moves the scale after a backward pass whose loss was scaled by `scale`.
    ///
    /// Ranks that share a device share its scale: the first of them to arrive moves it, once per round.
    ///
    /// # Panics
    ///
    /// Panics if the gradients overflowed although the scale was at its minimum: a smaller scale would not help.
    pub(crate) fn update(
        &self,
        scale: f32,
        overflowed: Vec<Overflow>,
        gradients: usize,
        decision: Decision,
    ) -> Outcome {
        let outcome = Outcome::of(decision.found_inf);
        let mut state = self.state();
        match decision.round {
            // Another rank has moved the scale in this round.
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
            state.loss_scale = self.rule.next(state.loss_scale, outcome);
            return outcome;
        }

        let skip = Skip {
            step,
            scale,
            overflowed,
            gradients,
        };
        let exhausted = match &self.rule {
            LossScaling::Dynamic(dynamic) => dynamic.is_at_min(state.loss_scale),
            LossScaling::NoScale | LossScaling::Static(_) => false,
        };
        state.loss_scale = self.rule.next(state.loss_scale, outcome);
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
}

fn panic_at_min(skip: &Skip) -> ! {
    panic!(
        "loss scale: overflow at the minimum {}, so the loss or an activation overflows by itself (loss_scale.min in \
         amp.toml); {skip}",
        f64::from(skip.scale)
    )
}
