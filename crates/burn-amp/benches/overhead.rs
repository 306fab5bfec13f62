//! Measures the cost of the decorator on Flex: `Amp` under preset `o0`, which computes exactly what the plain backend
//! computes, against the plain backend.
//!
//! `cargo bench -p burn-amp --bench overhead` measures times. Operands are small, so that the path to the kernel counts
//! and not the kernel. For the training step the noise is larger than the difference, so count instructions instead:
//!
//! ```text
//! RAYON_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=65536 CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --tool=callgrind --callgrind-out-file=/dev/null" \
//!     cargo bench -p burn-amp --bench overhead -- steps plain mlp 25    # and 5, and the same with `amp`
//! ```
//!
//! The models are `mlp`, `conv` and `transformer`. Large allocations are mapped, because otherwise it depends on the heap
//! whether zeros are written. The hash maps of Burn's graph vary by 0.3 % of a transformer's step, so take a mean.

use std::hint::black_box;

use burn::{
    backend::Flex,
    module::{AutodiffModule, Module},
    nn::{
        BatchNorm, BatchNormConfig, Linear, LinearConfig,
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{
        Distribution, Int, Tensor,
        activation::relu,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp::{
    Amp, Autodiff,
    config::{Config, ConfigError, ConfigSource, Preset},
};
use criterion::{Criterion, criterion_group};

struct O0;

impl ConfigSource for O0 {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            preset: Preset::O0,
            ..Config::default()
        })
    }
}

type Plain = burn::backend::Autodiff<Flex>;
type Decorated = Amp<Flex, O0>;

/// A training step with Adam of a model whose loss is known.
fn training_step<B: AutodiffBackend, M: AutodiffModule<B> + 'static>(
    mut model: M,
    loss: impl Fn(&M) -> Tensor<B, 1> + 'static,
) -> Step {
    let mut optimizer = AdamConfig::new().init();
    Box::new(move || {
        let grads = GradientsParams::from_grads(loss(&model).backward(), &model);
        model = optimizer.step(1e-3, model.clone(), grads);
    })
}

type Step = Box<dyn FnMut()>;

/// A model by its name.
type Model = (&'static str, fn() -> Step);

/// The cross entropy of logits of `classes`, for targets that do not matter.
fn cross_entropy<B: Backend>(logits: Tensor<B, 2>) -> Tensor<B, 1> {
    let [rows, classes] = logits.dims();
    let target = Tensor::<B, 1, Int>::arange(0..rows as i64, &logits.device());
    let target = target.remainder_scalar(classes as i64);
    CrossEntropyLossConfig::new()
        .init(&logits.device())
        .forward(logits, target)
}

#[derive(Module, Debug)]
struct Mlp<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

/// 32 × 784 → 128 → 10, 102 K parameters.
fn mlp<B: AutodiffBackend>() -> Step {
    let device = Default::default();
    let model = Mlp::<B> {
        hidden: LinearConfig::new(784, 128).init(&device),
        output: LinearConfig::new(128, 10).init(&device),
    };
    let x = Tensor::random([32, 784], Distribution::Default, &device);
    training_step(model, move |model| {
        let hidden = relu(model.hidden.forward(x.clone()));
        cross_entropy(model.output.forward(hidden))
    })
}

#[derive(Module, Debug)]
struct ConvNet<B: Backend> {
    conv1: Conv2d<B>,
    norm1: BatchNorm<B>,
    conv2: Conv2d<B>,
    norm2: BatchNorm<B>,
    output: Linear<B>,
}

/// 8 images of 3 × 16 × 16; two convolutions with batch norms and ReLUs, a mean over pixels, 10 classes; 1.6 K parameters.
fn conv_net<B: AutodiffBackend>() -> Step {
    let device = Default::default();
    let model = ConvNet::<B> {
        conv1: Conv2dConfig::new([3, 8], [3, 3]).init(&device),
        norm1: BatchNormConfig::new(8).init(&device),
        conv2: Conv2dConfig::new([8, 16], [3, 3]).init(&device),
        norm2: BatchNormConfig::new(16).init(&device),
        output: LinearConfig::new(16, 10).init(&device),
    };
    let x = Tensor::random([8, 3, 16, 16], Distribution::Default, &device);
    training_step(model, move |model| {
        let x = relu(model.norm1.forward(model.conv1.forward(x.clone())));
        let x = relu(model.norm2.forward(model.conv2.forward(x)));
        let means: Tensor<B, 2> = x.flatten::<3>(2, 3).mean_dim(2).squeeze_dim(2);
        cross_entropy(model.output.forward(means))
    })
}

#[derive(Module, Debug)]
struct Transformer<B: Backend> {
    encoder: TransformerEncoder<B>,
    output: Linear<B>,
}

/// 4 sequences of 16 vectors of 32; two layers of 4 heads, 10 classes; 17 K parameters.
fn transformer<B: AutodiffBackend>() -> Step {
    let device = Default::default();
    let model = Transformer::<B> {
        encoder: TransformerEncoderConfig::new(32, 64, 4, 2)
            .with_dropout(0.0)
            .init(&device),
        output: LinearConfig::new(32, 10).init(&device),
    };
    let x = Tensor::random([4, 16, 32], Distribution::Default, &device);
    training_step(model, move |model| {
        let x = model
            .encoder
            .forward(TransformerEncoderInput::new(x.clone()));
        cross_entropy(model.output.forward(x).flatten::<2>(0, 1))
    })
}

/// The models, by the names that the command line takes.
fn models<B: AutodiffBackend>() -> [Model; 3] {
    [
        ("mlp", mlp::<B>),
        ("conv", conv_net::<B>),
        ("transformer", transformer::<B>),
    ]
}

fn op<B: Backend>(
    size: usize,
    op: impl Fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>,
) -> impl Fn(&mut criterion::Bencher) {
    move |bencher| {
        let x = Tensor::random([size, size], Distribution::Default, &Default::default());
        bencher.iter(|| black_box(op(x.clone(), x.clone())));
    }
}

fn overhead(criterion: &mut Criterion) {
    let steps = models::<Plain>()
        .into_iter()
        .zip(models::<Autodiff<Decorated>>());
    for ((name, plain), (_, decorated)) in steps {
        let mut group = criterion.benchmark_group(format!("training step, {name}"));
        group.bench_function("plain", |bencher| bencher.iter(plain()));
        group.bench_function("amp o0", |bencher| bencher.iter(decorated()));
        group.finish();
    }

    for size in [1, 64] {
        let mut group = criterion.benchmark_group(format!("{size}x{size}"));
        group.bench_function("add, plain", op::<Flex>(size, |x, y| x + y));
        group.bench_function("add, amp o0", op::<Decorated>(size, |x, y| x + y));
        group.bench_function("matmul, plain", op::<Flex>(size, Tensor::matmul));
        group.bench_function("matmul, amp o0", op::<Decorated>(size, Tensor::matmul));
        group.finish();
    }
}

criterion_group!(benches, overhead);

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "steps", backend, model, steps, ..] => {
            let models = match backend {
                "plain" => models::<Plain>(),
                _ => models::<Autodiff<Decorated>>(),
            };
            let (_, model) = models
                .into_iter()
                .find(|(name, _)| *name == model)
                .expect("a model");
            let steps = steps.parse().expect("a number of steps");
            let mut step = model();
            (0..steps).for_each(|_| step());
        }
        _ => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
