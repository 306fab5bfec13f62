//! Measures what shared weight casts save: an LSTM of 64 steps, forward and backward, on the plain backend and under
//! `Amp`.
//!
//! `cargo bench -p burn-amp --bench weight_casts` prints the casts, the peak of the heap and the time of one pass. BF16
//! is emulated on the CPU, so compare times of BF16 only with each other.

use std::{sync::Arc, time::Instant};

use burn::{
    backend::Flex,
    nn::{Lstm, LstmConfig},
    tensor::{Distribution, Tensor, backend::AutodiffBackend},
};
use burn_amp::{
    Amp, Autodiff,
    config::{Compute, Config, ConfigError, ConfigSource},
    observe::CastCounter,
};
use peak_alloc::PeakAlloc;

struct InBf16;

impl ConfigSource for InBf16 {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            compute: Compute::Bf16,
            ..Config::default()
        })
    }
}

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const BATCH: usize = 8;
const STEPS: usize = 64;
const WIDTH: usize = 256;

fn pass<B: AutodiffBackend>(lstm: &Lstm<B>, x: Tensor<B, 3>) {
    let (output, _) = lstm.forward(x, None);
    let grads = output.square().mean().backward();
    assert!(
        lstm.forget_gate
            .hidden_transform
            .weight
            .val()
            .grad(&grads)
            .is_some()
    );
}

fn measure<B: AutodiffBackend>(name: &str) {
    const PASSES: u32 = 3;

    let device = Default::default();
    let lstm = LstmConfig::new(WIDTH, WIDTH, true).init::<B>(&device);
    let x = Tensor::random([BATCH, STEPS, WIDTH], Distribution::Default, &device);
    pass(&lstm, x.clone());

    let casts = Arc::new(CastCounter::default());
    burn_amp::observe::set_observer(Some(casts.clone()));
    pass(&lstm, x.clone());
    burn_amp::observe::set_observer(None);

    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let start = Instant::now();
    for _ in 0..PASSES {
        pass(&lstm, x.clone());
    }
    let seconds = (start.elapsed() / PASSES).as_secs_f64();
    let peak = (HEAP.peak_usage() - before) as f64 / f64::from(1 << 20);
    println!(
        "{name:<10} {:>6} casts  {peak:>7.1} MiB  {seconds:>6.3} s",
        casts.count()
    );
}

fn main() {
    println!(
        "LSTM, batch {BATCH}, {STEPS} steps, width {WIDTH}: casts, peak above the model, time of one pass"
    );
    measure::<burn::backend::Autodiff<Flex>>("plain f32");
    measure::<Autodiff<Amp<Flex, InBf16>>>("amp bf16");
}
