//! Law: a step that overflowed is written to a file and run again: with the same bits on Flex, in F32 and in F64.

mod common;

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
    diagnose::last_overflow,
    replay::{ReadError, Replayed, Step, replay},
};
use common::*;

/// Declares a policy whose overflowed steps are written to a file of its own.
macro_rules! written {
    ($name:ident, $config:expr) => {
        policy!($name, {
            let mut config = $config;
            config.overflow.locate = Locate::Always;
            config.overflow.replay = file::<Self>().display().to_string();
            config
        });
    };
}

/// The file to which the steps of a policy are written.
fn file<P>() -> PathBuf {
    let name = std::any::type_name::<P>().replace("::", "_");
    let of_process = format!("{}_{name}.safetensors", std::process::id());
    std::env::temp_dir().join(of_process)
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
    assert_eq!(step.cause.to_string(), cause.to_string());
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
    assert_eq!(cause, Some(step.cause.to_string()), "{text}");
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
        assert_eq!(step.cause.what, NotFinite::Result, "{at}: {}", step.cause);
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
        let is_of_backward = matches!(step.cause.what, NotFinite::Gradient { .. });
        assert!(is_of_backward, "{at}: {}", step.cause);
    }
}

/// Layers of many kinds: embedded tokens, an image, a batch norm, an attention with a mask, dropout.
#[derive(Module, Debug)]
struct Net<B: Backend> {
    embedding: Embedding<B>,
    norm: LayerNorm<B>,
    attention: MultiHeadAttention<B>,
    dropout: Dropout,
    conv: Conv2d<B>,
    batch_norm: BatchNorm<B>,
    gate: Linear<B>,
    head: Linear<B>,
}

impl<B: Backend> Net<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(11, 16).init(device),
            norm: LayerNormConfig::new(16).init(device),
            attention: MultiHeadAttentionConfig::new(16, 2).init(device),
            dropout: DropoutConfig::new(0.1).init(),
            conv: Conv2dConfig::new([1, 4], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            batch_norm: BatchNormConfig::new(4).init(device),
            gate: LinearConfig::new(16, 16).init(device),
            head: LinearConfig::new(16, 5).init(device),
        }
    }

    fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 1, Int>) -> Tensor<B, 1> {
        let device = tokens.device();
        let [batch, length] = tokens.dims();
        let x = self.embedding.forward(tokens);
        let mask = Tensor::<B, 2, Bool>::tril_mask([length, length], 0, &device);
        let mask = mask.unsqueeze::<3>().expand([batch, length, length]);
        let input = MhaInput::self_attn(self.norm.forward(x.clone())).mask_attn(mask);
        let x = x + self.dropout.forward(self.attention.forward(input).context);
        let noise = Tensor::random([1, 1, 16], Distribution::Default, &device);
        let gated = sigmoid(self.gate.forward(x.clone())) * x.clone() + noise;
        let image = gated.reshape([batch, 1, length, 16]);
        let image = relu(self.batch_norm.forward(self.conv.forward(image)));
        let x = x + image.mean_dim(1).squeeze_dim::<3>(1);
        let [low, high] = x.chunk(2, 1).try_into().expect("two halves");
        let x = Tensor::cat(vec![high, low.slice([0..batch, 0..1])], 1);
        let logits = self.head.forward(x.max_dim(1).squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new()
            .init(&device)
            .forward(logits, targets)
    }
}

/// A step of the net at a loss scale at which its gradients overflow.
fn step_of_net<P: ConfigSource>() -> (Step, Replayed) {
    let device = Default::default();
    B::<P>::seed(&device, 3);
    let net = Net::<B<P>>::new(&device);
    name_parameters(&net);
    let tokens = Tensor::<B<P>, 2, Int>::from_data([[1, 2, 3, 4], [5, 6, 10, 0]], &device);
    let targets = Tensor::<B<P>, 1, Int>::from_data([1, 4], &device);
    // What came before the step is not a part of it.
    net.loss(tokens.clone(), targets.clone()).backward();
    replayed::<P>(|| {
        net.loss(tokens, targets).backward();
    })
}

written!(LargeScale, in_f16(2f32.powi(30)));

#[test]
fn a_step_of_a_net_at_too_large_a_scale_has_the_same_bits_and_is_finite_in_f32_and_f64() {
    let (step, replayed) = step_of_net::<LargeScale>();
    assert_same(&step, &replayed);
    assert_eq!(step.scale, Some(2f32.powi(30)));
    assert!(step.outside.iter().all(|outside| !outside.is_cut));
    let names = step
        .outside
        .iter()
        .filter_map(|outside| outside.parameter.as_deref());
    let names: Vec<_> = names.collect();
    assert!(names.contains(&"attention.query.weight"), "{names:?}");
    for form in [&replayed.f32, &replayed.f64] {
        let form = form.as_ref().unwrap();
        assert_eq!(form.cause, None);
        assert!(
            form.first_not_finite()
                .is_none_or(|at| step.calls[at].op == "float_mask_fill")
        );
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

#[test]
fn a_step_that_shows_an_origin_is_not_replaced_by_one_that_does_not() {
    let file = file::<Poisoned>();
    let pass = |value: f32, factor: f32| {
        let w = full::<Poisoned>(value).require_grad();
        (w.clone().matmul(w) * factor).sum().backward();
        Step::read(&file).unwrap().cause
    };
    assert_eq!(pass(f32::NAN, 1.0).what, NotFinite::Operand);
    assert_eq!(pass(300.0, 1.0).what, NotFinite::Result);
    assert_eq!(pass(f32::NAN, 1.0).what, NotFinite::Result);
    std::fs::remove_file(&file).unwrap();
}

written!(Cut, in_f16(2f32.powi(30)));

#[test]
fn a_file_that_is_cut_off_or_of_something_else_is_an_error() {
    let (step, _) = step_of_net::<Cut>();
    let file = file::<Cut>();
    step.write(&file).unwrap();
    let read = Step::read(&file).unwrap();
    assert_eq!((read.data, read.calls.len()), (step.data, step.calls.len()));
    let bytes = std::fs::read(&file).unwrap();
    for length in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let error = Step::read(&file).unwrap_err();
        assert!(matches!(error, ReadError::Format(_)), "{length}: {error}");
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let other = |from: &str, to: &str| {
        assert!(text.contains(from) && from.len() == to.len());
        let at = bytes
            .windows(from.len())
            .position(|bytes| bytes == from.as_bytes())
            .unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        std::fs::write(&file, bytes).unwrap();
        Step::read(&file).unwrap_err()
    };
    let error = other(
        "burn_amp_step_version\":\"1\"",
        "burn_amp_step_version\":\"9\"",
    );
    assert_eq!(
        error.to_string(),
        "a step of version 9, but this burn-amp reads version 1"
    );
    let error = other("burn_amp_step_version", "burn_amp_step_missing");
    assert!(matches!(error, ReadError::NoStep), "{error}");
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Step::read(&file), Err(ReadError::Io(_))));
}

/// A policy whose steps are searched after a skipped one, with a scale that moves.
fn after_a_skip(file: PathBuf, sync: bool) -> Config {
    computing_in(Compute::F16, |it| {
        it.overflow.locate = Locate::OnSkip;
        it.overflow.replay = file.display().to_string();
        it.loss_scale.rule.init = 2f32.powi(20);
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.patience = 3;
        it.loss_scale.rule.min = 2f32.powi(18);
        it.loss_scale.sync = sync;
    })
}

#[test]
fn the_step_after_a_skipped_one_is_written_before_the_panic_that_ends_the_run() {
    policy!(OnSkip, after_a_skip(file::<Self>(), true));

    let file = file::<OnSkip>();
    let pass = || {
        let w = full::<OnSkip>(300.0).require_grad();
        // The parameter lives on, so its gradient is checked.
        w.clone().matmul(w.clone()).sum().backward();
    };
    pass();
    assert!(!file.exists(), "the first step is not searched");
    let end = std::panic::catch_unwind(|| (0..10).for_each(|_| pass()));
    assert!(end.is_err(), "every step overflows");
    let step = Step::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(step.scale, Some(2f32.powi(18)));
    let replayed = replay::<Flex>(&step, &Default::default());
    assert_same(&step, &replayed);
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

#[test]
fn without_a_search_no_step_can_be_written() {
    let mut config = Config::default();
    config.overflow.replay = "step.safetensors".into();
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "code: overflow.replay: expected overflow.locate on_skip or always with overflow.replay, found \
         overflow.locate off"
    );
}
