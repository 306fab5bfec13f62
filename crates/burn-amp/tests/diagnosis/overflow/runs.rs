//! Runs in which steps overflow: how they end, and which step is searched.

use super::*;

/// Passes whose gradient overflows at any scale, with the optimizer that names the parameters; returns the message of
/// the panic that ends the run.
fn given_up_after<P: ConfigSource>(passes: usize) -> String {
    type B<P> = Autodiff<Amp<Flex, P>>;
    let device = Default::default();
    let mut linear = LinearConfig::new(8, 8)
        .with_bias(false)
        .init::<B<P>>(&device);
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    let train = || {
        for _ in 0..passes {
            let x = Tensor::<B<P>, 2>::full([8, 8], 1e6, &device);
            let loss = linear.forward(x).sum();
            let grads = GradientsParams::from_grads(loss.backward(), &linear);
            linear = optimizer.step(1e-3, linear.clone(), grads);
        }
    };
    given_up(train)
}

fn at_the_floor(locate: Locate) -> Config {
    let rule = DynamicLossScale {
        init: 1.0,
        min: 1.0,
        search: false,
        patience: 3,
        ..DynamicLossScale::default()
    };
    in_f16(locate, rule)
}

/// The advice that helps against values beyond the range of F16 only.
const BF16: &str = "or set `compute = \"bf16\"`";

#[test]
fn bf16_is_advised_only_where_it_holds_what_f16_does_not() {
    policy!(Data, at_the_floor(Locate::Always));
    policy!(Values, at_the_floor(Locate::Always));
    policy!(Beyond, at_the_floor(Locate::Always));
    /// The end of a run whose loss is made of a weight of 1.
    fn end<P: ConfigSource>(
        loss: impl Fn(Tensor<Autodiff<Amp<Flex, P>>, 2>) -> Tensor<Autodiff<Amp<Flex, P>>, 1>,
    ) -> String {
        given_up(|| {
            for _ in 0..4 {
                let w = Tensor::ones([8, 8], &Default::default()).require_grad();
                // Gradients of tensors that still exist are checked.
                loss(w.clone()).backward();
                drop(w);
            }
        })
    }

    let device = Default::default();
    let data = end::<Data>(|w| Tensor::full([8, 8], f32::NAN, &device).matmul(w).sum());
    says(&data, "not finite in any dtype");
    // exp(1000) is inf in F32 and in BF16.
    let values = end::<Values>(|w| (w * 1e3).exp().sum());
    says(&values, "not finite in f32 either");
    let beyond = end::<Beyond>(|w| w.clone().matmul(w * 1e6).sum());
    for (message, helps) in [(data, false), (values, false), (beyond, true)] {
        assert_eq!(message.contains(BF16), helps, "{message}");
    }
}

#[test]
fn the_end_of_a_run_says_with_which_op_the_overflow_began() {
    policy!(OnSkip, at_the_floor(Locate::OnSkip));
    policy!(Off, at_the_floor(Locate::Off));
    let message = given_up_after::<OnSkip>(4);
    says(
        &message,
        "first in the cast of an operand of `linear` to f16 at",
    );
    says(&message, "overflow/runs.rs:");
    says(&message, "operand 1: weight f32 [8, 8]");
    assert!(!message.contains("overflow.locate"), "{message}");
    says(&message, BF16);

    let message = given_up_after::<Off>(4);
    says(&message, "If `compute = \"f32\"` has none");
    says(&message, BF16);
    says(
        &message,
        "`overflow.locate = \"on_skip\"` says with which op it begins",
    );
}

#[test]
fn after_a_skipped_step_one_step_is_searched() {
    policy!(AfterSkip, in_f16(Locate::OnSkip, fixed(1.0)));
    type B = Autodiff<Amp<Flex, AfterSkip>>;
    let device = Default::default();
    let pass = |value: f32| {
        let w = Tensor::<B, 2>::ones([8, 8], &device).require_grad();
        let x = Tensor::full([8, 8], value, &device);
        x.matmul(w.clone()).sum().backward();
        let skip = loss_scale::<B>(&device).last_skip();
        skip.is_some_and(|skip| skip.cause.is_some())
    };
    assert!(!pass(1e6), "the first overflow is not searched");
    assert!(pass(1e6), "the one after it is");
    assert!(pass(1.0), "the last skip is still that one");
    assert!(!pass(1e6), "a finite step ends the search");
}

#[test]
fn without_loss_scaling_the_cause_is_told_too() {
    policy!(
        InBf16,
        computing_in(Compute::Bf16, |it| it.overflow.locate = Locate::Always)
    );
    type B = Autodiff<Amp<Flex, InBf16>>;
    let device = Default::default();
    let w = Tensor::<B, 2>::ones([8, 8], &device).require_grad();
    let x = (w * 100.0).exp();
    x.sum().backward();
    let cause = last_overflow::<B>(&device).unwrap();
    assert_eq!((&*cause.op, &cause.what), ("float_exp", &NotFinite::Result));
}

#[test]
fn with_the_scale_on_the_device_the_cause_is_found_in_the_same_pass() {
    policy!(
        Deferred,
        in_f16(
            Locate::Always,
            LossScaleConfig {
                sync: false,
                ..fixed(1.0)
            }
        )
    );
    type B = Autodiff<Amp<Flex, Deferred>>;
    let device = Default::default();
    let w = Tensor::<B, 2>::full([8, 8], 300.0, &device).require_grad();
    w.clone().matmul(w).sum().backward();
    let cause = last_overflow::<B>(&device).unwrap();
    assert_eq!(&*cause.op, "float_matmul");
}

#[test]
fn check_skips_a_bf16_step_that_overflows_and_changes_no_other() {
    fn in_bf16(mode: LossScaleMode) -> Config {
        computing_in(Compute::Bf16, |it| it.loss_scale.mode = mode)
    }
    policy!(Checked, in_bf16(LossScaleMode::Check));
    policy!(Unchecked, in_bf16(LossScaleMode::Auto));

    /// The gradient of a pass whose input has `value`, and whether the step is skipped.
    fn pass<P: ConfigSource>(value: f32) -> (Option<Vec<f32>>, Outcome) {
        type B<P> = Autodiff<Amp<Flex, P>>;
        let device = Default::default();
        let w = Tensor::<B<P>, 2>::ones([8, 8], &device).require_grad();
        let x = Tensor::full([8, 8], value, &device);
        let mut grads = x.matmul(w.clone()).powi_scalar(2).sum().backward();
        let outcome = grads.outcome();
        let gradient = w.grad_remove(&mut grads);
        (
            gradient.map(|gradient| gradient.to_data().to_vec().unwrap()),
            outcome,
        )
    }
    assert_eq!(pass::<Checked>(0.3), pass::<Unchecked>(0.3));
    let (gradient, outcome) = pass::<Checked>(1e30);
    assert_eq!((gradient, outcome), (None, Outcome::Overflowed));
    let (gradient, outcome) = pass::<Unchecked>(1e30);
    assert_eq!(outcome, Outcome::Finite);
    assert!(gradient.unwrap().iter().all(|x| !x.is_finite()));
    let scale = loss_scale::<Autodiff<Amp<Flex, Checked>>>(&Default::default());
    assert_eq!((scale.scale(), scale.skipped_steps()), (1.0, 1));
}

#[test]
fn a_number_of_overflows_in_a_row_ends_a_run_at_any_scale() {
    policy!(Limited, in_f16(Locate::Off, limited_to(3)));
    policy!(Unlimited, in_f16(Locate::Off, limited_to(0)));
    fn limited_to(max_skips: u32) -> LossScaleConfig {
        LossScaleConfig {
            max_skips,
            ..fixed(4.0)
        }
    }

    /// Passes with these inputs; the number of the one that ends the run, and its message.
    fn passes<P: ConfigSource>(values: &[f32]) -> Option<(usize, String)> {
        type B<P> = Autodiff<Amp<Flex, P>>;
        let device = Default::default();
        for (at, value) in values.iter().enumerate() {
            let pass = || {
                let w = Tensor::<B<P>, 2>::ones([8, 8], &device).require_grad();
                let x = Tensor::full([8, 8], *value, &device);
                x.matmul(w.clone()).sum().backward();
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(pass)) {
                return Some((at, *panic.downcast::<String>().unwrap()));
            }
        }
        None
    }
    const INF: f32 = 1e6;
    let (at, message) = passes::<Limited>(&[INF, INF, 1.0, INF, INF, INF, INF]).unwrap();
    assert_eq!(at, 5);
    assert!(
        message.starts_with(
            "loss scale: gradients overflowed in 3 steps in a row, as many as `loss_scale.max_skips` allows. \
             The last: step 5, loss scale 4: 1 of 1 gradients not finite"
        ),
        "{message}"
    );
    assert!(
        message.ends_with("which has the range of f32 [messages#training-is-given-up]"),
        "{message}"
    );
    assert_eq!(passes::<Unlimited>(&[INF; 8]), None);
}
