//! Law: a planted overflow is found at its op and line, forward and backward, and a searched step has the bits of any
//! other.

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use burn_amp::{
    diagnose::{Cause, last_overflow},
    optim::AmpOptimizer,
    scaling::Outcome,
};
use common::*;

fn in_f16(locate: Locate, loss_scale: impl Into<LossScaleConfig>) -> Config {
    computing_in(Compute::F16, |it| {
        it.loss_scale = loss_scale.into();
        it.overflow.locate = locate;
    })
}

policy!(Always, in_f16(Locate::Always, fixed(1.0)));
type B = Autodiff<Amp<Flex, Always>>;
type T = Tensor<B, 2>;

fn full(value: f32) -> T {
    Tensor::full([8, 8], value, &Default::default())
}

/// The cause of an overflow in a step, and the line that it names.
#[track_caller]
fn found(loss: T) -> (Arc<Cause>, u32) {
    let last = || last_overflow::<B>(&Default::default());
    let before = last();
    loss.sum().backward();
    let cause = last().expect("a cause was found");
    let is_new = before.is_none_or(|before| !Arc::ptr_eq(&before, &cause));
    assert!(is_new, "nothing was found in this step; before it: {cause}");
    let site = cause.site.as_ref().expect("this package has line tables");
    assert!(site.file.ends_with("tests/overflow.rs"), "{cause}");
    let line = site.line;
    (cause, line)
}

/// What a step does with `x` and `w`, whose values are 1.
type Step = fn(x: T, w: T) -> T;

/// Writes a table of steps, one in each line: the op that overflows, and the code, with `=>` before the expression that
/// does. Also returns the line before the first one, because in a macro every line has the number of its call.
///
/// A macro, because a table of closures would be formatted into several lines each.
macro_rules! steps {
    ($($op:literal: |$x:ident, $w:ident| $({$($before:tt)*})? => $overflow:expr, |$y:ident| $after:expr;)+) => {
        (line!(), [$((
            $op,
            (|$x: T, $w: T| {
                $($($before)*)?
                let $y = $overflow;
                $after
            }) as Step,
        )),+])
    };
}

#[test]
fn an_overflow_of_a_forward_pass_is_found_at_its_op_and_line() {
    let (above, steps) = steps! {
        "float_matmul": |x, w| => (x * 300.0).matmul(w * 300.0), |y| relu(y);
        "float_mul": |x, w| { let big = x.matmul(w.clone()) * 40.0; } => big.clone() * big, |y| y.transpose() + w;
        "float_mul_scalar": |x, w| { let x = x.matmul(w); } => x * 30000.0, |y| y.exp().log();
        "float_add": |x, w| { let x = x.matmul(w) * 8000.0; } => x.clone() + x, |y| softmax(y, 1);
        "float_exp": |x, w| { let x = x.matmul(w) * 12.0; } => x.exp(), |y| y * 2.0;
        "float_log": |x, w| { let x = x.matmul(w) - 8.0; } => x.log(), |y| y.abs();
        "float_div": |x, w| { let zero = w.clone() - 1.0; } => x / zero, |y| y + w;
        "float_sub": |x, w| { let x = x.matmul(w) * 8000.0; } => x.clone().neg() - x, |y| y * 0.5;
        "linear": |x, w| { let big = x * 300.0; } => burn::tensor::module::linear(big, w * 300.0, None), |y| gelu(y);
        "float_powi_scalar": |x, w| { let big = x.matmul(w) * 1e3; } => big.powi_scalar(16), |y| y.sqrt();
    };
    for (expected, (op, step)) in (above + 1..).zip(steps) {
        let w = full(1.0).require_grad();
        let loss = step(full(1.0), w);
        let (cause, line) = found(loss);
        assert_eq!((&*cause.op, line), (op, expected), "{cause}");
        assert_eq!(cause.what, NotFinite::Result, "{op}: {cause}");
        assert!(!cause.values.is_finite(), "{op}: {cause}");
        assert!(
            cause.operands.iter().all(|x| x.range.is_finite()),
            "{op}: {cause}"
        );
    }
}

#[test]
fn an_overflow_of_a_backward_pass_is_found_at_its_op_and_line() {
    // Values are small and the factors after them large, so that every value is finite, and a gradient is not.
    let (above, steps) = steps! {
        "float_matmul": |x, w| { let small = x * 1e-4; } => small.matmul(w), |y| y * 30000.0;
        "linear": |x, w| { let small = x * 1e-4; } => burn::tensor::module::linear(small, w, None), |y| y * 30000.0;
        "float_sqrt": |x, w| { let zero = x.matmul(w) - 8.0; } => zero.sqrt(), |y| y;
        "float_powf_scalar": |x, w| { let zero = x.matmul(w) - 8.0; } => zero.powf_scalar(0.5), |y| y;
        "float_log": |x, w| { let tiny = x.matmul(w) * 1.25e-6; } => tiny.log(), |y| y;
        "float_div": |x, w| { let tiny = x.clone().matmul(w) * 1e-4; } => x / tiny, |y| y;
        "float_sum_dim": |x, w| { let low = x.matmul(w); } => low.sum_dim(1), |y| y * 1e5;
        "gelu": |x, w| { let low = x.matmul(w) * 0.18; } => gelu(low), |y| full_precision(|| y * 65000.0);
        "float_mul": |x, w| { let low = x.matmul(w); let big = (low.clone() * 7500.0).detach(); } => (low * 1e-3) * big, |y| full_precision(|| y * 10.0);
    };
    for (expected, (op, step)) in (above + 1..).zip(steps) {
        let [x, w] = [full(1.0), full(1.0)].map(Tensor::require_grad);
        let loss = step(x, w);
        let (cause, line) = found(loss);
        assert_eq!((&*cause.op, line), (op, expected), "{cause}");
        assert!(
            matches!(cause.what, NotFinite::Gradient { .. }),
            "{op}: {cause}"
        );
    }
}

#[test]
fn a_sum_of_gradients_that_overflows_belongs_to_the_op_whose_result_was_read_twice() {
    let [x, w] = [full(1.0), full(1.0)].map(Tensor::require_grad);
    let expected = line!() + 1;
    let y = x.matmul(w) * 0.01;
    let [first, second] = [y.clone(), y].map(|y| full_precision(|| y * 40000.0));
    let (cause, line) = found(first + second);
    assert_eq!(
        (&*cause.op, line),
        ("float_mul_scalar", expected),
        "{cause}"
    );
    assert_eq!(cause.what, NotFinite::Sum, "{cause}");
}

#[test]
fn a_gradient_of_infinite_operands_began_where_they_became_infinite() {
    let [w, v] = [full(1.0), full(1.0)].map(Tensor::require_grad);
    let x = full(1e4);
    let expected = line!() + 1;
    let inf = x.matmul(w);
    // The loss is finite: exp(-inf) is 0. The gradient of `v` is inf · 0.
    let (cause, line) = found(inf.matmul(v.clone()).neg().exp());
    assert_eq!((&*cause.op, line), ("float_matmul", expected), "{cause}");
    assert_eq!(cause.what, NotFinite::Result, "{cause}");
}

#[test]
fn an_overflow_that_the_loss_hides_is_the_cause_of_the_gradients_that_are_not_finite() {
    let w = full(1.0).require_grad();
    let x = full(1.0).matmul(w) * 12.0;
    let expected = line!() + 1;
    let exp = x.exp();
    // exp(96) is inf in F32 and 1 / inf is 0: a sigmoid by hand has a finite result and a gradient of inf · 0.
    let (cause, line) = found((exp + 1.0).recip());
    assert_eq!((&*cause.op, line), ("float_exp", expected), "{cause}");
    assert_eq!(cause.what, NotFinite::Result, "{cause}");
}

#[test]
fn zeros_whose_logarithm_is_a_mask_are_no_cause() {
    let w = full(1.0).require_grad();
    let mask = full(0.0).log();
    let masked = softmax(
        full(1.0).matmul(w.clone()) + mask.slice([0..1, 0..8]).exp(),
        1,
    );
    let small = masked * 1e-4;
    let expected = line!() + 1;
    let y = small.matmul(w);
    let (cause, line) = found(y * 30000.0);
    assert_eq!((&*cause.op, line), ("float_matmul", expected), "{cause}");
    assert!(matches!(cause.what, NotFinite::Gradient { .. }), "{cause}");
}

#[test]
fn the_operands_of_the_cause_have_names_dtypes_and_ranges() {
    let linear: Linear<B> = LinearConfig::new(8, 8)
        .with_bias(false)
        .init(&Default::default());
    name_parameters(&linear);
    let (cause, _) = found(linear.forward(full(1e6)));
    // The input is finite in F32 and inf in F16.
    assert_eq!(&*cause.op, "linear");
    assert_eq!(cause.computed_in, Precision::F16);
    let [x, weight] = &cause.operands[..] else {
        panic!("{cause}")
    };
    assert_eq!((x.dtype, &*x.shape), (Precision::F32, &[8, 8][..]));
    assert_eq!((x.range.min, x.range.max), (1e6, 1e6));
    assert_eq!(weight.parameter.as_deref(), Some("weight"));
    assert_eq!(cause.parameters().collect::<Vec<_>>(), ["weight"]);
    let told = cause.to_string();
    assert!(
        told.starts_with("the cast of an operand of `linear` to f16 at"),
        "{told}"
    );
    says(
        &told,
        "f32 [8, 8] 1.000e6 to 1.000e6, beyond the range of f16",
    );
}

/// A cast overflows where it is read; the line to look at is the one that made the value, behind its views.
#[test]
fn a_cast_that_overflows_names_the_line_that_made_its_operand() {
    let w = full(1.0).require_grad();
    let made = line!() + 1;
    let big = (full(1.0) + w.clone()) * 1e6;
    let view = big.transpose();
    let read = line!() + 1;
    let (cause, line) = found(view.matmul(w));
    assert_eq!((&*cause.op, line), ("float_matmul", read), "{cause}");
    let by = cause.operands[0].made.as_ref().expect("an op made it");
    let site = by.site.as_ref().expect("this package has line tables");
    assert_eq!((&*by.op, site.line), ("float_mul_scalar", made), "{cause}");
    assert!(
        cause.to_string().contains(&format!(
            "beyond the range of f16, made by `float_mul_scalar` at {site}"
        )),
        "{cause}"
    );
    assert_eq!(cause.operands[1].made, None, "no op made the parameter");
}

#[test]
fn data_that_is_not_finite_is_no_fault_of_an_op() {
    let w = full(1.0).require_grad();
    let (cause, _) = found(full(f32::NAN).matmul(w));
    assert_eq!(
        (&*cause.op, &cause.what),
        ("float_matmul", &NotFinite::Operand)
    );
    assert!(
        cause
            .to_string()
            .starts_with("an operand of `float_matmul`, which no op had made,")
    );
}

#[test]
fn a_mask_of_minus_infinity_is_no_cause() {
    let device = Default::default();
    let mask: Tensor<B, 2, Bool> = Tensor::tril_mask([8, 8], 0, &device);
    let w = full(1.0).require_grad();
    let scores = full(1.0)
        .matmul(w.clone())
        .mask_fill(mask, f32::NEG_INFINITY);
    let masked = softmax(scores, 1);
    let expected = line!() + 1;
    let (cause, line) = found((masked.matmul(w) + 1.0) * 65000.0);
    assert_eq!(
        (&*cause.op, line),
        ("float_mul_scalar", expected),
        "{cause}"
    );
    assert_eq!(cause.what, NotFinite::Result);
}

#[test]
fn a_finite_step_has_no_cause() {
    policy!(Finite, in_f16(Locate::Always, fixed(1.0)));
    type B = Autodiff<Amp<Flex, Finite>>;
    let device = Default::default();
    let w = Tensor::<B, 2>::full([8, 8], 0.1, &device).require_grad();
    let mask: Tensor<B, 2, Bool> = Tensor::tril_mask([8, 8], 0, &device);
    let scores = w.clone().matmul(w).mask_fill(mask, f32::NEG_INFINITY);
    assert_eq!(
        softmax(scores, 1).sum().backward().outcome(),
        Outcome::Finite
    );
    assert!(last_overflow::<B>(&device).is_none());
}

/// A model whose layers read activations in all ways that ops have.
fn forward<B: Backend>(linear: &[Linear<B>; 2], x: Tensor<B, 2>) -> Tensor<B, 1> {
    let [first, second] = linear;
    let norm = LayerNormConfig::new(8).init(&x.device());
    let hidden = norm.forward(gelu(first.forward(x.clone())) + x);
    let gate = sigmoid(second.forward(hidden.clone()));
    let scores = softmax(hidden.clone().matmul(gate.clone().transpose()), 1);
    let y = scores.matmul(hidden) * gate;
    log_softmax(y, 1).slice([0..8, 0..1]).mean()
}

#[test]
fn a_searched_step_has_the_bits_of_any_other() {
    policy!(Searched, in_f16(Locate::Always, fixed(64.0)));
    policy!(Unsearched, in_f16(Locate::Off, fixed(64.0)));

    fn step<P: ConfigSource>() -> Vec<f32> {
        type B<P> = Autodiff<Amp<Flex, P>>;
        let device = Default::default();
        <B<P> as Backend>::seed(&device, 1);
        let linear = [(); 2].map(|()| LinearConfig::new(8, 8).init::<B<P>>(&device));
        let x = Tensor::random([8, 8], Distribution::Default, &device).require_grad();
        let loss = forward(&linear, x.clone());
        let mut values = loss.to_data().to_vec::<f32>().unwrap();
        let grads = loss.backward();
        assert_eq!(grads.outcome(), Outcome::Finite);
        for tensor in [&linear[0].weight.val(), &linear[1].weight.val(), &x] {
            let gradient = tensor.grad(&grads).unwrap();
            values.extend(gradient.to_data().to_vec::<f32>().unwrap());
        }
        values
    }
    assert_eq!(step::<Searched>(), step::<Unsearched>());
}

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
    says(&message, "tests/overflow.rs:");
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
