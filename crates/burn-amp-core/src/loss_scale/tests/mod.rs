mod properties;

mod frameworks;

use Outcome::{Finite as F, Overflowed as I};
use proptest::{prelude::*, sample::select};

use super::*;

/// The pattern whose traces in other frameworks are known.
const PATTERN: [Outcome; 18] = [F, F, F, I, F, F, F, F, I, I, F, F, F, F, F, F, I, I];

/// PyTorch's rule: no search, no floor, no cap, no hysteresis.
fn pytorch(
    init: f32,
    growth_factor: f32,
    backoff_factor: f32,
    growth_interval: u32,
) -> DynamicLossScale {
    DynamicLossScale {
        init,
        search: false,
        growth_factor,
        backoff_factor,
        growth_interval,
        hysteresis: 1,
        min: 0.0,
        max: f32::INFINITY,
        patience: 1,
    }
}

/// The states after each step.
fn trace(
    rule: DynamicLossScale,
    outcomes: impl IntoIterator<Item = Outcome>,
) -> Vec<LossScaleState> {
    let rule = LossScaling::Dynamic(rule);
    let steps = outcomes.into_iter().scan(rule.start(), |state, outcome| {
        *state = rule.next(*state, outcome);
        Some(*state)
    });
    steps.collect()
}

fn scales(rule: DynamicLossScale, outcomes: impl IntoIterator<Item = Outcome>) -> Vec<f32> {
    trace(rule, outcomes)
        .iter()
        .map(|state| state.scale)
        .collect()
}

#[test]
fn an_overflow_that_the_hysteresis_tolerates_does_not_exhaust_the_scale() {
    let rule = DynamicLossScale {
        init: 1.0,
        min: 1.0,
        hysteresis: 3,
        ..pytorch(1.0, 2.0, 0.5, 1000)
    };
    let exhausted = |outcomes: &[Outcome]| -> Vec<bool> {
        let states = trace(rule, outcomes.iter().copied());
        states
            .into_iter()
            .map(|now| rule.is_exhausted(now))
            .collect()
    };
    assert!(!rule.is_exhausted(LossScaling::from(rule).start()));
    assert_eq!(
        exhausted(&[I, I, I, I, F, I]),
        [false, true, true, true, false, false]
    );
}

#[test]
fn a_scale_outside_its_limits_moves_only_towards_them() {
    let rule = LossScaling::from(DynamicLossScale {
        min: 1.0,
        growth_interval: 1,
        search: false,
        ..DynamicLossScale::default()
    });
    let at = |scale| LossScaleState {
        scale,
        ..rule.start()
    };
    assert_eq!(rule.next(at(0.5), I).scale, 0.5);
    assert_eq!(rule.next(at(0.5), F).scale, 1.0);
    assert_eq!(rule.next(at(2f32.powi(30)), F).scale, 2f32.powi(30));
    assert_eq!(rule.next(at(2f32.powi(30)), I).scale, 2f32.powi(29));
}

/// Runs steps that overflow above `threshold` until the search is over; returns the scale and the skipped steps.
fn search(rule: DynamicLossScale, threshold: f32) -> (f32, u32) {
    let scaling = LossScaling::from(rule);
    let (mut state, mut skipped) = (scaling.start(), 0);
    while state.search != Search::Over {
        let overflows = state.scale > threshold;
        skipped += u32::from(overflows);
        state = scaling.next(state, Outcome::of(overflows));
    }
    (state.scale, skipped)
}

#[test]
fn the_search_goes_up_to_init_or_to_the_first_overflow() {
    let rule = DynamicLossScale::default();
    let mut expected: Vec<_> = (4..=16).map(|e| 2f32.powi(e)).collect();
    assert_eq!(LossScaling::from(rule).start().scale, expected.remove(0));
    let all = trace(rule, [F; 14]);
    assert_eq!(
        all.iter()
            .map(|state| state.scale)
            .take(12)
            .collect::<Vec<_>>(),
        expected
    );
    assert!(
        all[..12]
            .iter()
            .all(|state| state.search == Search::Up && state.streak == 0)
    );
    // PyTorch's rule goes on from here.
    assert_eq!(
        all[13],
        LossScaleState {
            scale: 65536.0,
            streak: 1,
            hysteresis: 1,
            search: Search::Over
        }
    );

    assert_eq!(scales(rule, [F, F, I, I, F]), [32., 64., 32., 16., 16.]);
    assert_eq!(
        scales(rule, [I, F, F, I, F]),
        [-12, -11, -10, -11, -11].map(|e| 2f32.powi(e))
    );
    assert_eq!(scales(rule, [I; 3])[1..], [rule.min, rule.min]);
}

/// PyTorch's descent from 65536 to 2^-3 skips 19 steps, and to 4096 four.
#[test]
fn a_search_skips_one_or_two_steps() {
    let rule = DynamicLossScale::default();
    for exponent in -24..=30 {
        let threshold = 2f32.powi(exponent);
        let (scale, skipped) = search(rule, threshold);
        assert_eq!(scale, threshold.min(rule.init));
        let expected = match exponent {
            16.. => 0,
            4..16 => 1,
            -12..4 => 2,
            // Gradients above 2^28.
            _ => 3,
        };
        assert_eq!(skipped, expected, "2^{exponent}");
    }
}

#[test]
fn the_search_does_not_wait_for_the_hysteresis() {
    let rule = DynamicLossScale {
        hysteresis: 4,
        ..DynamicLossScale::default()
    };
    assert_eq!(search(rule, 1024.0), (1024.0, 1));
    let ended = trace(rule, [F, F, I])[2];
    assert_eq!((ended.search, ended.hysteresis), (Search::Over, 4));
}

/// Why there is a floor: from 1/scale = inf on, a zero gradient would become NaN.
#[test]
fn without_a_floor_the_reciprocal_overflows_after_144_steps() {
    let fallen = scales(pytorch(65536.0, 2.0, 0.5, 2000), [I; 200]);
    let first = |is: fn(&f32) -> bool| 1 + fallen.iter().position(is).unwrap();
    assert_eq!(first(|scale| *scale < 1.0), 17);
    assert_eq!(first(|scale| scale.is_subnormal()), 143);
    assert_eq!(first(|scale| scale.recip().is_infinite()), 144);
    assert_eq!(first(|scale| *scale == 0.0), 166);
}

#[test]
fn at_a_steady_threshold_one_step_in_2001_is_skipped() {
    let rule = LossScaling::Dynamic(pytorch(65536.0, 2.0, 0.5, 2000));
    let mut state = rule.start();
    let mut skipped = Vec::new();
    for step in 0..20000 {
        let outcome = if state.scale > 4096.0 { I } else { F };
        if outcome == I {
            skipped.push(step);
        }
        state = rule.next(state, outcome);
    }
    assert_eq!(skipped.len(), 13);
    assert_eq!(skipped[..8], [0, 1, 2, 3, 2004, 4005, 6006, 8007]);
}

#[test]
fn a_static_scale_counts_its_streak_and_stays() {
    let scaling = LossScaling::Static(1024.0);
    let after = [F, F, I, F]
        .into_iter()
        .fold(scaling.start(), |state, outcome| {
            scaling.next(state, outcome)
        });
    assert_eq!((after.scale, after.streak), (1024.0, 1));
}
