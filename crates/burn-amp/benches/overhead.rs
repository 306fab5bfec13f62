//! Measures the cost of the decorator on Flex: `Amp` under preset `o0`, which computes exactly what the plain backend
//! computes, against the plain backend.
//!
//! `cargo bench -p burn-amp --bench overhead` measures times. Operands are small, so that the path to the kernel counts
//! and not the kernel. For the training step the noise is larger than the difference, so count instructions instead:
//!
//! ```text
//! CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --tool=callgrind --callgrind-out-file=/dev/null" \
//!     cargo bench -p burn-amp --bench overhead -- steps plain 25    # and 5, and the same with `amp`
//! ```

use std::hint::black_box;

use burn::{
    backend::Flex,
    module::Module,
    nn::{Linear, LinearConfig, Relu, loss::CrossEntropyLossConfig},
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{
        Distribution, Int, Tensor,
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

type Decorated = Amp<Flex, O0>;

#[derive(Module, Debug)]
struct Mlp<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

/// A training step of a small MLP: 32 × 784 → 128 → 10 with Adam, 102 K parameters.
fn training_step<B: AutodiffBackend>() -> impl FnMut() {
    let device = Default::default();
    let mut model = Mlp::<B> {
        hidden: LinearConfig::new(784, 128).init(&device),
        output: LinearConfig::new(128, 10).init(&device),
    };
    let mut optimizer = AdamConfig::new().init();
    let x = Tensor::random([32, 784], Distribution::Default, &device);
    let target = Tensor::<B, 1, Int>::arange(0..32, &device).remainder_scalar(10);
    move || {
        let hidden = Relu::new().forward(model.hidden.forward(x.clone()));
        let output = model.output.forward(hidden);
        let loss = CrossEntropyLossConfig::new()
            .init(&device)
            .forward(output, target.clone());
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-3, model.clone(), grads);
    }
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
    let mut group = criterion.benchmark_group("training step");
    group.bench_function("plain", |bencher| {
        bencher.iter(training_step::<burn::backend::Autodiff<Flex>>());
    });
    group.bench_function("amp o0", |bencher| {
        bencher.iter(training_step::<Autodiff<Decorated>>());
    });
    group.finish();

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
        [_, "steps", backend, steps, ..] => {
            let steps = steps.parse().expect("a number of steps");
            let mut step: Box<dyn FnMut()> = match backend {
                "plain" => Box::new(training_step::<burn::backend::Autodiff<Flex>>()),
                _ => Box::new(training_step::<Autodiff<Decorated>>()),
            };
            (0..steps).for_each(|_| step());
        }
        _ => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
