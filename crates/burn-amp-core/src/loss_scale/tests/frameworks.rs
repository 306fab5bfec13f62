//! What other frameworks do, vector by vector.

use super::*;

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
