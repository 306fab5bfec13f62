//! The loss scale as the host knows it.

use std::sync::Arc;

use burn_amp_core::{DynamicLossScale, LossScaling, Outcome, Search, overflow::Cause};
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
    pub(crate) rule: LossScaling,
    /// The overflows in a row after which training is given up; 0 for no limit.
    pub(super) max_skips: u32,
    state: Mutex<HostState>,
}

#[derive(Clone, Debug)]
pub(crate) struct HostState {
    /// The scale, and the numbers of scaled and of overflowed backward passes.
    progress: LossScaleRecord,
    pub(crate) last_skip: Option<Skip>,
    /// The number of backward passes that the ranks of a data-parallel run made together.
    pub(crate) rounds: u64,
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
            progress: LossScaleRecord::start(rule),
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

    pub(crate) fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock()
    }

    /// Returns the scale and the numbers of passes, as far as the host knows them.
    pub(crate) fn progress(&self) -> LossScaleRecord {
        self.state().progress
    }

    /// Returns the factor on the next loss, or `None` if the loss is not scaled.
    pub(crate) fn scale(&self) -> Option<f32> {
        match self.rule {
            LossScaling::NoScale => None,
            LossScaling::Static(_) | LossScaling::Dynamic(_) => Some(self.progress().scale()),
        }
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

    /// Continues from a saved state, under this rule.
    pub(crate) fn load(&self, record: LossScaleRecord) {
        let mut state = self.state();
        state.progress = record.resumed(&self.rule);
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
        let outcome = Outcome::of(pass.decision.found_inf);
        let mut state = self.state();
        match pass.decision.round {
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
        let before = state.progress;
        state.progress = before.next(&self.rule, outcome);
        match outcome {
            Outcome::Finite => state.begin_row(),
            Outcome::Overflowed => self.skip(state, before, pass),
        }
        outcome
    }

    /// Counts and reports a skipped step. `before` was the state of the scale before it.
    fn skip(&self, mut state: MutexGuard<'_, HostState>, before: LossScaleRecord, pass: Checked) {
        let skip = Skip {
            step: before.steps,
            scale: pass.scale,
            overflowed: pass.overflowed,
            gradients: pass.gradients,
            cause: pass.cause,
        };
        if skip.cause.is_some() {
            state.cause = skip.cause.clone();
        }
        state.last_skip = Some(skip.clone());
        state.in_a_row = state.in_a_row.saturating_add(1);
        if let Some(limit) = self.limit(&mut state, before, skip.scale) {
            let given_up = GivenUp {
                skip,
                in_a_row: state.in_a_row,
                limit,
                later: pass.later,
                cause: state.cause.clone(),
            };
            state.given_up = Some(given_up.clone());
            drop(state);
            given_up.panic();
        }
        let (next, in_a_row) = (state.progress.loss_scale, state.in_a_row);
        let all_at_min = state.all_at_min;
        drop(state);

        if let LossScaling::Static(_) = self.rule {
            warn::of_static_scale(in_a_row, skip.scale, &skip);
        }
        warn::of_smallest_scale(all_at_min, &skip);
        // The search falls far below the scale that it finds.
        if next.search == Search::Over && next.scale < 1.0 && next.scale < before.scale() {
            warn::of_scale_below_1(Readable(next.scale), &skip);
        }
        tracing::info!(
            "burn-amp: step skipped: {skip}; the next scale is {} {}",
            Readable(next.scale),
            warn::See("a-skipped-step")
        );
    }

    /// Counts an overflow at the smallest scale, if this is one. Returns the limit that the overflows in a row have reached.
    fn limit(&self, state: &mut HostState, before: LossScaleRecord, scale: f32) -> Option<Limit> {
        if let LossScaling::Dynamic(rule) = &self.rule
            // Another thread may have lowered the scale since this pass began.
            && scale <= before.scale()
            && rule.is_exhausted(before.loss_scale)
        {
            state.at_min = state.at_min.saturating_add(1);
            state.all_at_min = state.all_at_min.saturating_add(1);
            if state.at_min >= rule.patience {
                return Some(Limit::AtMin(state.at_min));
            }
        }
        let too_many = self.max_skips > 0 && state.in_a_row >= self.max_skips;
        too_many.then_some(Limit::InARow)
    }
}
