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
fn the_pattern_goes_as_in_pytorch_apex_jmp_and_keras() {
    let states = trace(pytorch(128.0, 2.0, 0.5, 3), PATTERN);
    let scales: Vec<_> = states.iter().map(|state| state.scale).collect();
    let streaks: Vec<_> = states.iter().map(|state| state.streak).collect();
    assert_eq!(
        scales,
        [
            128., 128., 256., 128., 128., 128., 256., 256., 128., 64., 64., 64., 128., 128., 128.,
            256., 128., 64.
        ]
    );
    assert_eq!(
        streaks,
        [1, 2, 0, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 2, 0, 0, 0]
    );
}

#[test]
fn the_pattern_goes_as_in_apex_and_transformer_engine_with_hysteresis_2() {
    let rule = DynamicLossScale {
        hysteresis: 2,
        ..pytorch(128.0, 2.0, 0.5, 3)
    };
    let states = trace(rule, PATTERN);
    let scales: Vec<_> = states.iter().map(|state| state.scale).collect();
    let hysteresis: Vec<_> = states.iter().map(|state| state.hysteresis).collect();
    assert_eq!(
        scales,
        [
            128., 128., 256., 256., 256., 256., 512., 512., 512., 256., 256., 256., 512., 512.,
            512., 1024., 1024., 512.
        ]
    );
    assert_eq!(
        hysteresis,
        [2, 2, 2, 1, 2, 2, 2, 2, 1, 0, 2, 2, 2, 2, 2, 2, 1, 0]
    );
}

#[test]
fn pytorch_test_grad_scaling_update_scale() {
    let states = trace(pytorch(4.0, 2.0, 0.25, 2), [F, F, I]);
    let states: Vec<_> = states
        .iter()
        .map(|state| (state.scale, state.streak))
        .collect();
    assert_eq!(states, [(4.0, 1), (8.0, 0), (2.0, 0)]);
}

#[test]
fn pytorch_run_scaling_case() {
    let rule = pytorch(128.0, 2.0, 0.5, 1);
    assert_eq!(scales(rule, [F, F, I, F]), [256.0, 512.0, 256.0, 512.0]);
}

#[test]
fn pytorch_test_grad_scale_will_not_overflow() {
    assert_eq!(scales(pytorch(1e38, 16.0, 0.5, 1), [F, F]), [1e38, 1e38]);
    let top = pytorch(2f32.powi(124), 2.0, 0.5, 1);
    assert_eq!(
        scales(top, [F; 5]),
        [125, 126, 127, 127, 127].map(|e| 2f32.powi(e))
    );
}

#[test]
fn jmp_loss_scale_test() {
    let rule = DynamicLossScale {
        min: 1.0,
        ..pytorch(10.0, 2.0, 0.5, 20)
    };
    let grown = scales(rule, [F; 60]);
    assert_eq!(grown[18..21], [10.0, 20.0, 20.0]);
    assert_eq!(grown[38..41], [20.0, 40.0, 40.0]);
    assert_eq!(grown[58..], [40.0, 80.0]);
    assert_eq!(scales(rule, [I; 5]), [5.0, 2.5, 1.25, 1.0, 1.0]);
    let rule = DynamicLossScale {
        min: 0.3125,
        ..rule
    };
    assert_eq!(
        scales(rule, [I; 6]),
        [5.0, 2.5, 1.25, 0.625, 0.3125, 0.3125]
    );
}

#[test]
fn keras_loss_scale_optimizer_test() {
    assert_eq!(
        scales(pytorch(400.0, 2.0, 0.5, 2000), [I; 4]),
        [200.0, 100.0, 50.0, 25.0]
    );
    assert_eq!(
        scales(pytorch(2.0, 2.0, 0.5, 2), [F; 8]),
        [2.0, 4.0, 4.0, 8.0, 8.0, 16.0, 16.0, 32.0]
    );
}

#[test]
fn deepspeed_floor() {
    let rule = DynamicLossScale {
        min: 1.0,
        ..pytorch(16.0, 2.0, 0.5, 1000)
    };
    assert_eq!(
        scales(rule, [I; 8]),
        [8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    );
    let at_min: Vec<_> = trace(rule, [I; 5])
        .into_iter()
        .map(|state| rule.is_exhausted(state))
        .collect();
    assert_eq!(at_min, [false, false, false, true, true]);
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

fn any_rule() -> impl Strategy<Value = DynamicLossScale> {
    (
        prop::array::uniform3(-126i32..=127),
        1i32..=127,
        -126i32..=-1,
        1u32..5,
        1u32..4,
        any::<bool>(),
    )
        .prop_map(
            |(mut scales, growth, backoff, growth_interval, hysteresis, search)| {
                scales.sort_unstable();
                let power = |e: i32| 2f64.powi(e) as f32;
                DynamicLossScale {
                    init: power(scales[1]),
                    search,
                    growth_factor: power(growth),
                    backoff_factor: power(backoff),
                    growth_interval,
                    hysteresis,
                    min: power(scales[0]),
                    max: power(scales[2]),
                    patience: 1,
                }
            },
        )
}

fn any_outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    prop::collection::vec(select([F, F, F, I].as_slice()), 0..64)
}

fn is_power_of_two(x: f32) -> bool {
    x.is_normal() && x > 0.0 && x.to_bits().trailing_zeros() >= 23
}

proptest! {
    #[test]
    fn the_scale_stays_a_power_of_two_between_floor_and_cap(rule in any_rule(), outcomes in any_outcomes()) {
        for state in trace(rule, outcomes) {
            prop_assert!(is_power_of_two(state.scale), "{}", state.scale);
            prop_assert!(rule.min <= state.scale && state.scale <= rule.max);
        }
    }

    #[test]
    fn the_streak_stays_below_the_interval(rule in any_rule(), outcomes in any_outcomes()) {
        for state in trace(rule, outcomes) {
            prop_assert!(state.streak < rule.growth_interval);
            prop_assert!(state.hysteresis <= rule.hysteresis);
        }
    }

    #[test]
    fn an_overflow_never_raises_and_a_finite_step_never_lowers_the_scale(
        rule in any_rule(),
        outcomes in any_outcomes(),
    ) {
        let states = trace(rule, outcomes.clone());
        let mut before = LossScaling::from(rule).start().scale;
        for (state, outcome) in states.into_iter().zip(outcomes) {
            match outcome {
                I => prop_assert!(state.scale <= before && state.streak == 0),
                F => prop_assert!(state.scale >= before && state.hysteresis == rule.hysteresis),
            }
            before = state.scale;
        }
    }

    #[test]
    fn from_any_scale_an_overflow_never_raises_and_a_finite_step_never_lowers_it(
        rule in any_rule(),
        exponent in -126i32..=127,
        stage in select([Search::Over, Search::Down, Search::Up].as_slice()),
        left in 0u32..4,
    ) {
        let now = LossScaleState { scale: 2f32.powi(exponent), streak: 0, hysteresis: left, search: stage };
        let rule = LossScaling::from(rule);
        prop_assert!(rule.next(now, I).scale <= now.scale);
        prop_assert!(rule.next(now, F).scale >= now.scale);
    }

    #[test]
    fn a_search_ends_at_the_largest_finite_scale(rule in any_rule(), above_min in 0i32..=253) {
        let rule = DynamicLossScale { search: true, ..rule };
        let threshold = (f64::from(rule.min) * 2f64.powi(above_min)).min(2f64.powi(127)) as f32;
        let (scale, skipped) = search(rule, threshold);
        prop_assert_eq!(scale, threshold.min(rule.init));
        // One step for each fall by 2^16 from 2^12 below `init`, and one to find the end.
        let below = f64::from(rule.init / scale).log2();
        prop_assert!(f64::from(skipped) <= ((below - 12.0) / 16.0).max(0.0).ceil() + 1.0);
    }

    #[test]
    fn after_the_search_the_rule_is_the_one_without_a_search(
        rule in any_rule(),
        first in any_outcomes(),
        outcomes in any_outcomes(),
    ) {
        let with = LossScaling::from(DynamicLossScale { search: true, ..rule });
        let without = LossScaling::from(DynamicLossScale { search: false, ..rule });
        let mut state = first.into_iter().fold(with.start(), |now, outcome| with.next(now, outcome));
        while state.search != Search::Over {
            state = with.next(state, F);
        }
        prop_assert_eq!(without.start().search, Search::Over);
        for outcome in outcomes {
            prop_assert_eq!(with.next(state, outcome), without.next(state, outcome));
            state = with.next(state, outcome);
        }
    }

    #[test]
    fn a_resumed_search_goes_on_as_if_uninterrupted(rule in any_rule(), outcomes in any_outcomes()) {
        let scaling = LossScaling::from(rule);
        for state in trace(rule, outcomes) {
            prop_assert_eq!(scaling.resume(state), state);
        }
        let without = LossScaling::from(DynamicLossScale { search: false, ..rule });
        prop_assert_eq!(without.resume(scaling.start()).search, Search::Over);
    }

    #[test]
    fn no_scale_never_changes(outcomes in any_outcomes()) {
        let scaling = LossScaling::NoScale;
        for outcome in outcomes {
            prop_assert_eq!(scaling.next(scaling.start(), outcome), scaling.start());
        }
        prop_assert_eq!(scaling.start().scale, 1.0);
    }

    #[test]
    fn hysteresis_1_without_limits_is_pytorchs_kernel(
        exponent in -20i32..20,
        interval in 1u32..5,
        outcomes in any_outcomes(),
    ) {
        // `_amp_update_scale_`, line by line
        let rule = pytorch(2f32.powi(exponent), 2.0, 0.5, interval);
        let (mut scale, mut tracker) = (rule.init, 0);
        let states = trace(rule, outcomes.clone());
        for (state, outcome) in states.into_iter().zip(outcomes) {
            if outcome == I {
                scale *= 0.5;
                tracker = 0;
            } else {
                let successful = tracker + 1;
                if successful == interval {
                    let new = scale * 2.0;
                    if new.is_finite() {
                        scale = new;
                    }
                    tracker = 0;
                } else {
                    tracker = successful;
                }
            }
            prop_assert_eq!((state.scale, state.streak), (scale, tracker));
        }
    }

    #[test]
    fn with_hysteresis_it_is_apexs_kernel(
        init in select([1.0f32, 1024.0, 65536.0].as_slice()),
        growth in select([1.0f32, 2.0, 4.0].as_slice()),
        backoff in select([0.5f32, 0.25].as_slice()),
        interval in 1u32..8,
        allowed in 1i32..6,
        outcomes in any_outcomes(),
    ) {
        // `update_scale_hysteresis`, line by line
        let rule = DynamicLossScale {
            hysteresis: allowed as u32,
            ..pytorch(init, growth, backoff, interval)
        };
        let (mut scale, mut tracker, mut hysteresis) = (init, 0, allowed);
        let states = trace(rule, outcomes.clone());
        for (state, outcome) in states.into_iter().zip(outcomes) {
            if outcome == I {
                hysteresis -= 1;
                if hysteresis > 0 {
                    tracker = 0;
                    prop_assert_eq!((state.scale, state.streak), (scale, tracker));
                    continue;
                }
                scale *= backoff;
                tracker = 0;
            } else {
                let successful = tracker + 1;
                if successful == interval {
                    let new = scale * growth;
                    if new.is_finite() {
                        scale = new;
                    }
                    tracker = 0;
                } else {
                    tracker = successful;
                }
                hysteresis = allowed;
            }
            prop_assert_eq!((state.scale, state.streak), (scale, tracker));
        }
    }
}
