//! Law: a planted overflow is found at its op and line, forward and backward, and a searched step has the bits of any
//! other.

mod no_cause;

mod runs;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::common::*;
use burn_amp::{
    diagnose::{Cause, last_overflow},
    optim::AmpOptimizer,
    scaling::Outcome,
};

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
    assert!(site.file.contains("diagnosis/overflow/"), "{cause}");
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
