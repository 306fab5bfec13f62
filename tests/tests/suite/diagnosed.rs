//! Law: diagnoses that have ended leave nothing behind: the plain backend gets the same calls as without them.

use burn_amp::{config::Locate, diagnose};
use burn_amp_tests::{
    InForce,
    prelude::*,
    trace::{Trace, calls},
};

fn located(locate: Locate) -> Config {
    in_f16(|it| {
        it.overflow.locate = locate;
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 1.0;
    })
}

policy!(Off, located(Locate::Off));
policy!(OnSkip, located(Locate::OnSkip));

type B = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, InForce>>;

/// The calls that a step makes on the plain backend; it overflows if `value` is beyond F16.
fn step<P: ConfigSource>(value: f32) -> Vec<(Op, Vec<DType>)> {
    let _policy = enter::<P>();
    let x = Tensor::<B, 2>::full([4, 4], value, &here());
    let weight = Tensor::<B, 2>::full([4, 4], 0.5, &here()).require_grad();
    let norm = LayerNormConfig::new(4).init::<B>(&here());
    calls(|| {
        let y = gelu(norm.forward(x.matmul(weight.clone())));
        let y = softmax(y.matmul(weight), 1) * 2.0 + 1.0;
        y.square().mean().backward();
    })
}

fn skipped<P: ConfigSource>() -> u64 {
    let _policy = enter::<P>();
    loss_scale::<B>(&here()).skipped_steps()
}

#[test]
fn a_search_that_has_ended_leaves_the_calls_as_they_were() {
    const INF: f32 = 1e6;
    let expected = step::<Off>(1.0);
    assert_eq!(step::<OnSkip>(1.0), expected);
    step::<OnSkip>(INF);
    assert_eq!(skipped::<OnSkip>(), 1);
    let searched = step::<OnSkip>(1.0);
    assert_ne!(
        searched, expected,
        "the step after a skipped one is searched"
    );
    assert_eq!(step::<OnSkip>(1.0), expected);
}

#[test]
fn a_report_changes_no_call_and_a_comparison_that_has_ended_none() {
    let _policy = enter::<Off>();
    let expected = step::<Off>(1.0);
    let recording = diagnose::record::<B>(&here());
    assert_eq!(step::<Off>(1.0), expected);
    drop(recording.finish());
    let shadowing = diagnose::shadow();
    assert_ne!(step::<Off>(1.0), expected, "each op runs once more");
    assert!(!shadowing.finish().ops.is_empty());
    assert_eq!(step::<Off>(1.0), expected);
}

#[test]
fn a_report_lists_the_gradients_with_which_backward_passes_began() {
    let _policy = enter::<Off>();
    let x = Tensor::<B, 2>::ones([6, 4], &here());
    let weight = Tensor::<B, 2>::ones([4, 5], &here()).require_grad();
    let recording = diagnose::record::<B>(&here());
    for _ in 0..2 {
        // A product in F16, whose reader computes in F32.
        let y = x.clone().matmul(weight.clone()).exp();
        y.sum().backward();
        x.clone().matmul(weight.clone());
    }
    let report = recording.finish();
    let gradient = |op: &str, dtype: &str, shape: &[usize], bytes| {
        let is_it = |it: &&diagnose::Kept| (&*it.op, &*it.dtype, &*it.shape) == (op, dtype, shape);
        let gradient = report.gradients.iter().find(is_it);
        assert_eq!(
            gradient.map(|it| (it.count, it.bytes)),
            Some((2, bytes)),
            "{op}: {:?}",
            report.gradients
        );
    };
    gradient("float_matmul", "f16", &[6, 5], 2 * 6 * 5 * 2);
    gradient("float_exp", "f32", &[6, 5], 2 * 6 * 5 * 4);
    gradient("float_sum", "f32", &[1], 2 * 4);
    assert_eq!(report.gradients.len(), 3);
    assert!(report.to_text().contains("Backward passes of ops"));
}
