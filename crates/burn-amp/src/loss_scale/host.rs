//! The loss scale as the host knows it.

use std::sync::Arc;

use burn_amp_core::{
    DynamicLossScale, LossScaleState, LossScaling, Outcome, Search, overflow::Cause,
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    give_up::{GivenUp, Limit},
    record::LossScaleRecord,
    skip::{Checked, Readable, Skip},
};
use crate::warn;

/// The loss scale on the host, with the rule by which it moves.
#[derive(Debug)]
pub(crate) struct HostScale {
    rule: LossScaling,
    /// The overflows in a row after which training is given up; 0 for no limit.
    max_skips: u32,
    state: Mutex<HostState>,
}

#[derive(Clone, Debug)]
pub(crate) struct HostState {
    pub(crate) loss_scale: LossScaleState,
    /// The number of scaled backward passes so far.
    pub(crate) steps: u64,
    /// The number of backward passes that overflowed.
    pub(crate) skipped_steps: u64,
    pub(crate) last_skip: Option<Skip>,
    /// The number of backward passes that the ranks of a data-parallel run made together.
    rounds: u64,
    /// The overflowed steps since the last finite one.
    in_a_row: u32,
    /// Those of them that the smallest scale did not prevent.
    at_min: u32,
    /// All overflowed steps that the smallest scale did not prevent.
    all_at_min: u32,
    /// The op with which an overflow since the last finite step began, if it was found.
    cause: Option<Arc<Cause>>,
    /// The reason why training was given up, if it was.
    given_up: Option<GivenUp>,
}

impl HostState {
    fn start(rule: &LossScaling) -> Self {
        Self {
            loss_scale: rule.start(),
            steps: 0,
            skipped_steps: 0,
            last_skip: None,
            rounds: 0,
            in_a_row: 0,
            at_min: 0,
            all_at_min: 0,
            cause: None,
            given_up: None,
        }
    }

    /// Forgets that steps overflowed in a row.
    fn begin_row(&mut self) {
        self.in_a_row = 0;
        self.at_min = 0;
        self.cause = None;
        self.given_up = None;
    }
}

impl HostScale {
    pub(crate) fn new(rule: LossScaling, max_skips: u32) -> Self {
        Self {
            state: Mutex::new(HostState::start(&rule)),
            rule,
            max_skips,
        }
    }

    /// Returns the rule by which the scale moves.
    pub(crate) fn rule(&self) -> LossScaling {
        self.rule
    }

    /// Returns the overflows in a row after which training is given up; 0 for no limit.
    pub(crate) fn max_skips(&self) -> u32 {
        self.max_skips
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, HostState> {
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

    /// Returns the number of backward passes that overflowed, as far as the host knows.
    pub(crate) fn skipped_steps(&self) -> u64 {
        self.state().skipped_steps
    }

    /// Returns the rule in the form that the kernel understands; `None` if the loss is not scaled.
    pub(crate) fn as_dynamic(&self) -> Option<DynamicLossScale> {
        match self.rule {
            LossScaling::NoScale => None,
            LossScaling::Static(scale) => Some(DynamicLossScale {
                init: scale,
                search: false,
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
        state.begin_row();
    }

    /// Starts afresh, as before the first step. The rounds of a data-parallel run go on: the ranks count them too.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        *state = HostState {
            rounds: state.rounds,
            ..HostState::start(&self.rule)
        };
    }

    /// Moves the scale after a backward pass.
    ///
    /// Ranks that share a device share its scale: the first of them to arrive moves it, once per round.
    ///
    /// # Panics
    ///
    /// Panics if the gradients overflowed at the smallest scale as often in a row as `loss_scale.patience` says, or at any
    /// scale as often as `loss_scale.max_skips` says.
    pub(crate) fn update(&self, pass: Checked) -> Outcome {
        let Checked {
            scale,
            overflowed,
            gradients,
            decision,
            later,
            cause,
        } = pass;
        let outcome = Outcome::of(decision.found_inf);
        let mut state = self.state();
        match decision.round {
            // Another rank has moved the scale in this round.
            Some(round) if round < state.rounds => {
                let given_up = state.given_up.clone();
                drop(state);
                return match (outcome, given_up) {
                    (Outcome::Overflowed, Some(given_up)) => given_up.panic(),
                    (Outcome::Overflowed, None) | (Outcome::Finite, _) => outcome,
                };
            }
            Some(_) => state.rounds += 1,
            None => {}
        }
        let step = state.steps;
        state.steps += 1;
        let before = state.loss_scale;
        state.loss_scale = self.rule.next(before, outcome);
        if outcome == Outcome::Finite {
            state.begin_row();
            return outcome;
        }

        let skip = Skip {
            step,
            scale,
            overflowed,
            gradients,
            cause,
        };
        if skip.cause.is_some() {
            state.cause = skip.cause.clone();
        }
        state.skipped_steps += 1;
        state.last_skip = Some(skip.clone());
        state.in_a_row = state.in_a_row.saturating_add(1);
        let in_a_row = state.in_a_row;
        let mut is_exhausted = false;
        if let LossScaling::Dynamic(rule) = &self.rule
            // Another thread may have lowered the scale since this pass began.
            && scale <= before.scale
            && rule.is_exhausted(before)
        {
            state.at_min = state.at_min.saturating_add(1);
            state.all_at_min = state.all_at_min.saturating_add(1);
            is_exhausted = state.at_min >= rule.patience;
        }
        let too_many = self.max_skips > 0 && in_a_row >= self.max_skips;
        if is_exhausted || too_many {
            let given_up = GivenUp {
                skip,
                in_a_row,
                limit: match is_exhausted {
                    true => Limit::AtMin(state.at_min),
                    false => Limit::InARow,
                },
                later,
                cause: state.cause.clone(),
            };
            state.given_up = Some(given_up.clone());
            drop(state);
            given_up.panic();
        }
        let (next, all_at_min) = (state.loss_scale, state.all_at_min);
        drop(state);

        if let LossScaling::Static(_) = self.rule {
            warn::of_static_scale(in_a_row, scale, &skip);
        }
        warn::of_smallest_scale(all_at_min, &skip);
        // The search falls far below the scale that it finds.
        if next.search == Search::Over && next.scale < 1.0 && next.scale < before.scale {
            warn::of_scale_below_1(Readable(next.scale), &skip);
        }
        tracing::info!(
            "burn-amp: step skipped: {skip}; the next scale is {} {}",
            Readable(next.scale),
            warn::See("a-skipped-step")
        );
        outcome
    }
}
