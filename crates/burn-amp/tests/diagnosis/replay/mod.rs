//! Law: a step that overflowed is written to a file and run again: with the same bits on Flex, in F32 and in F64.

use std::path::PathBuf;

use burn::{
    nn::{
        BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig,
        PaddingConfig2d,
        attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
    },
    tensor::TensorPrimitive,
};
use burn_amp::{
    diagnose::{Cause, last_overflow},
    replay::{Change, ReadError, Replayed, Step, changes, replay},
};

use self::net::Net;
use crate::common::*;

/// Declares a policy whose overflowed steps are written to a file of its own.
macro_rules! written {
    ($name:ident, $config:expr) => {
        policy!($name, {
            let mut config = $config;
            config.overflow.locate = Locate::Always;
            config.replay.output = file::<Self>().display().to_string();
            config
        });
    };
}

mod files;
mod net;

/// The file to which the steps of a policy are written.
fn file<P>() -> PathBuf {
    let name = std::any::type_name::<P>().replace("::", "_");
    let of_process = format!("{}_{name}.safetensors", std::process::id());
    std::env::temp_dir().join(of_process)
}

/// The op with which the overflow of a step began.
#[track_caller]
fn cause_of(step: &Step) -> &Cause {
    step.cause.as_ref().expect("the step overflowed")
}

fn in_f16(scale: f32) -> Config {
    computing_in(Compute::F16, |it| it.loss_scale = fixed(scale))
}

type B<P> = Autodiff<Amp<Flex, P>>;
type T<P> = Tensor<B<P>, 2>;

fn full<P: ConfigSource>(value: f32) -> T<P> {
    Tensor::full([8, 8], value, &Default::default())
}

/// Runs a step that overflows, reads its file, and runs it again.
fn replayed<P: ConfigSource>(step: impl FnOnce()) -> (Step, Replayed) {
    let file = file::<P>();
    let _ = std::fs::remove_file(&file);
    step();
    let step = Step::read(&file).expect("the step overflows, and is written");
    std::fs::remove_file(&file).unwrap();
    let cause = last_overflow::<B<P>>(&Default::default()).unwrap();
    // JSON rounds the numbers of a range.
    assert_eq!(cause_of(&step).to_string(), cause.to_string());
    let replayed = replay::<Flex>(&step, &Default::default());
    (step, replayed)
}

/// Asserts that a step has the same bits and the same cause when it is run again.
#[track_caller]
fn assert_same(step: &Step, replayed: &Replayed) {
    let form = replayed.recorded.as_ref().unwrap();
    let same = form.same(step);
    let text = replayed.to_text(step, true);
    assert!(same.is_all(), "{same:?}\n{text}");
    assert!(same.of_results > 0 && same.of_gradients > 0, "{text}");
    let cause = form.cause.as_ref().map(ToString::to_string);
    assert_eq!(cause, Some(cause_of(step).to_string()), "{text}");
}

written!(InF16, in_f16(1.0));

/// What a step does with `x` and `w`, whose values are 1.
type OneStep = fn(x: T<InF16>, w: T<InF16>) -> T<InF16>;

#[test]
fn an_overflow_of_a_forward_pass_has_the_same_bits_and_is_finite_in_f32() {
    // Each overflows in F16 only, or at a point where F32 does too.
    let steps: [(OneStep, bool); 10] = [
        (|x, w| relu((x * 300.0).matmul(w * 300.0)), true),
        (
            |x, w| {
                let big = x.matmul(w.clone()) * 40.0;
                (big.clone() * big).transpose() + w
            },
            true,
        ),
        (|x, w| (x.matmul(w) * 30000.0).sqrt(), true),
        (
            |x, w| {
                let x = x.matmul(w) * 8000.0;
                softmax(x.clone() + x, 1)
            },
            true,
        ),
        (|x, w| (x.matmul(w) * 120.0).exp() * 2.0, false),
        (|x, w| (x.matmul(w) - 8.0).log().abs(), false),
        (
            |x, w| {
                let zero = w.clone() - 1.0;
                x / zero + w
            },
            false,
        ),
        (
            |x, w| {
                let x = x.matmul(w) * 8000.0;
                (x.clone().neg() - x) * 0.5
            },
            true,
        ),
        (
            |x, w| gelu(burn::tensor::module::linear(x * 300.0, w * 300.0, None)),
            true,
        ),
        (
            |x, w| full_precision(|| x.matmul(w) * 1e5).matmul(T::eye(8, &Default::default())),
            true,
        ),
    ];
    for (at, (step, finite)) in steps.into_iter().enumerate() {
        let w = full(1.0).require_grad();
        let (step, replayed) = replayed::<InF16>(|| {
            step(full(1.0), w).sum().backward();
        });
        assert_same(&step, &replayed);
        let cause = cause_of(&step);
        assert_eq!(cause.what, NotFinite::Result, "{at}: {cause}");
        for form in [&replayed.f32, &replayed.f64] {
            let form = form.as_ref().unwrap();
            assert_eq!(form.cause.is_none(), finite, "{at}: {:?}", form.cause);
        }
    }
}

#[test]
fn an_overflow_of_a_backward_pass_has_the_same_bits() {
    let steps: [OneStep; 6] = [
        |x, w| (x * 1e-4).matmul(w) * 30000.0,
        |x, w| (x.matmul(w) - 8.0).sqrt(),
        |x, w| (x.matmul(w) * 1.25e-6).log(),
        |x, w| x.clone() / (x.matmul(w) * 1e-4),
        |x, w| x.matmul(w).sum_dim(1) * 1e5,
        |x, w| {
            let low = gelu(x.matmul(w) * 0.18);
            full_precision(|| low * 65000.0)
        },
    ];
    for (at, step) in steps.into_iter().enumerate() {
        let [x, w] = [full(1.0), full(1.0)].map(Tensor::require_grad);
        let (step, replayed) = replayed::<InF16>(|| {
            step(x, w).sum().backward();
        });
        assert_same(&step, &replayed);
        let cause = cause_of(&step);
        let is_of_backward = matches!(cause.what, NotFinite::Gradient { .. });
        assert!(is_of_backward, "{at}: {cause}");
    }
}

written!(
    Low,
    Config {
        preset: burn_amp::config::Preset::O2,
        ..in_f16(2f32.powi(40))
    }
);

#[test]
fn parameters_in_half_precision_have_the_same_bits() {
    let device = Default::default();
    let layer = LinearConfig::new(16, 16).init::<B<Low>>(&device);
    let layer = burn_amp::cast_params(layer);
    let x = || Tensor::<B<Low>, 2>::random([8, 16], Distribution::Default, &device);
    let (step, replayed) = replayed::<Low>(|| {
        // Two uses of each parameter, whose gradients add up in F32.
        let x = layer.forward(layer.forward(x()));
        x.sum().backward();
    });
    assert_same(&step, &replayed);
}

written!(InBf16, computing_in(Compute::Bf16, |_| {}));

#[test]
fn a_step_without_loss_scaling_has_the_same_bits_and_overflows_in_f32_too() {
    let w = full::<InBf16>(1e38).require_grad();
    let (step, replayed) = replayed::<InBf16>(|| {
        (w.clone().matmul(w) * 2.0).sum().backward();
    });
    assert_same(&step, &replayed);
    assert_eq!(step.scale, None);
    let cause =
        |form: &Result<burn_amp::replay::Form, String>| form.as_ref().unwrap().cause.clone();
    assert!(cause(&replayed.f32).is_some_and(|cause| cause.op == "float_matmul"));
    assert_eq!(cause(&replayed.f64), None);
}

written!(Poisoned, in_f16(1.0));

/// A policy whose steps are searched after a skipped one, with a scale that moves.
fn after_a_skip(file: PathBuf, sync: bool) -> Config {
    computing_in(Compute::F16, |it| {
        it.overflow.locate = Locate::OnSkip;
        it.replay.output = file.display().to_string();
        it.loss_scale.rule.init = 2f32.powi(20);
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.patience = 3;
        it.loss_scale.rule.min = 2f32.powi(18);
        it.loss_scale.sync = sync;
    })
}

#[test]
fn a_step_whose_outcome_stays_on_the_device_has_the_same_bits() {
    written!(Deferred, after_a_skip(file::<Self>(), false));

    let w = full::<Deferred>(0.1).require_grad();
    let (step, replayed) = replayed::<Deferred>(|| {
        (w.clone().matmul(w) * 3.0).sum().backward();
    });
    assert_same(&step, &replayed);
    assert_eq!(step.scale, Some(2f32.powi(20)));
}

written!(Checkpointed, in_f16(2f32.powi(40)));

#[test]
fn a_step_under_gradient_checkpointing_has_the_same_bits() {
    use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;

    type C = Autodiff<Amp<Flex, Checkpointed>, BalancedCheckpointing>;

    let device = Default::default();
    let net = Net::<C>::new(&device);
    let tokens = Tensor::<C, 2, Int>::from_data([[1, 2, 3, 4], [5, 6, 10, 0]], &device);
    let targets = Tensor::<C, 1, Int>::from_data([1, 4], &device);
    let (step, replayed) = replayed::<Checkpointed>(|| {
        net.loss(tokens, targets).backward();
    });
    assert_same(&step, &replayed);
}

written!(WithCustom, in_f16(1.0));

#[test]
fn the_result_of_an_op_that_is_not_in_the_table_enters_as_values() {
    let w = full::<WithCustom>(300.0).require_grad();
    let (step, replayed) = replayed::<WithCustom>(|| {
        let halved = Amp::<Flex, WithCustom, _>::custom_op(
            Class::Keep,
            [w.clone().into_primitive().tensor()],
            |[x]| x,
        );
        let same = T::<WithCustom>::from_primitive(TensorPrimitive::Float(halved));
        w.matmul(same).sum().backward();
    });
    assert_eq!(
        step.outside.iter().filter(|outside| outside.is_cut).count(),
        1
    );
    let form = replayed.recorded.as_ref().unwrap();
    let same = form.same(&step);
    assert_eq!(same.results, same.of_results);
    let text = replayed.to_text(&step, false);
    assert!(text.contains("A tensor was made before the step"), "{text}");
}
