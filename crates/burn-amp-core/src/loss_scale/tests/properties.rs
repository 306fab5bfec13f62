//! What holds for any rule and any outcomes.

use super::*;

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
