//! Measures the bytes that parameters, masters and moments take between two steps, on the heap of the CPU backend, and
//! compares them with the estimate. The test has a binary of its own, because the allocator counts the bytes of the whole
//! process.
#![cfg(not(feature = "cubecl"))]

use burn::{
    nn::{Linear, LinearConfig},
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{Distribution, Tensor},
};
use burn_amp::{
    cast_params,
    config::Preset,
    extend::{Amped, NoGraph},
    memory,
    optim::{AmpOptimizer, Masters, Moments},
};
use burn_amp_tests::*;
use burn_backend::AutodiffBackend;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

policy!(O1, computing_in(Compute::Bf16));
policy!(
    O2,
    Config {
        preset: Preset::O2,
        ..computing_in(Compute::Bf16)
    }
);

/// F16 with a loss scale of 1, so that no pass overflows; `sync` says whether the host waits for the check.
fn scaled(sync: bool) -> Config {
    Config {
        loss_scale: LossScaleConfig {
            mode: LossScaleMode::Dynamic,
            rule: DynamicLossScale {
                init: 1.0,
                search: false,
                ..DynamicLossScale::default()
            },
            sync,
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
}

policy!(Waits, scaled(true));
policy!(Goes, scaled(false));

const WIDTH: usize = 1024;

/// The bytes per parameter that a layer and its optimizer take after some steps, before the next pass.
fn after_steps<P: ConfigSource>(optimizer: &AmpOptimizer<AdamConfig>) -> f64 {
    type B<P> = AmpAutodiff<P>;
    fn run<A>(optimizer: &AmpOptimizer<AdamConfig>) -> usize
    where
        A: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
    {
        let device = Default::default();
        let x = Tensor::<A, 2>::random([1, WIDTH], Distribution::Default, &device);
        let before = HEAP.current_usage();
        let layer = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
        let mut layer: Linear<A> = cast_params(layer.init(&device));
        let mut optimizer = optimizer.init();
        for _ in 0..3 {
            let loss = layer.forward(x.clone()).square().mean();
            let grads = GradientsParams::from_grads(loss.backward(), &layer);
            layer = optimizer.step(1e-3, layer, grads);
        }
        // The copy of the parameters for the next forward pass ends with its backward pass.
        drop(layer.forward(x.clone()).sum().backward());
        let bytes = HEAP.current_usage() - before;
        drop((layer, optimizer));
        bytes
    }
    run::<B<P>>(optimizer) as f64 / (WIDTH * WIDTH) as f64
}

#[test]
fn every_format_takes_what_the_estimate_says() {
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let bf16 = || adam().with_moments(Moments::Bf16);
    let config = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
    let layer: Linear<Plain> = config.init(&Default::default());
    for (name, preset, optimizer) in [
        ("o1", Preset::O1, adam()),
        ("o1, bf16 moments", Preset::O1, bf16()),
        ("o2", Preset::O2, adam()),
        ("o2, bf16 moments", Preset::O2, bf16()),
        (
            "o2, split masters, bf16 moments",
            Preset::O2,
            bf16().with_masters(Masters::Split),
        ),
        (
            "o2, no masters, bf16 moments",
            Preset::O2,
            bf16().with_masters(Masters::Stochastic),
        ),
    ] {
        let estimate = memory::estimate(&layer, preset, &optimizer);
        // There are no gradients between two steps.
        let expected = (estimate.total() - estimate.gradients) as f64 / (WIDTH * WIDTH) as f64;
        let found = match preset {
            Preset::O1 => after_steps::<O1>(&optimizer),
            _ => after_steps::<O2>(&optimizer),
        };
        println!("{name}: {found:.3} bytes per parameter, estimate {expected}");
        assert!(
            (found - expected).abs() < 0.05,
            "{name}: {found} and not {expected}"
        );
    }
}

/// The state is kept once, whether the host waits for the check of the gradients or not.
#[test]
fn a_step_that_may_be_skipped_on_the_device_keeps_no_second_state() {
    let adam = AmpOptimizer::new(AdamConfig::new());
    let waits = after_steps::<Waits>(&adam);
    let goes = after_steps::<Goes>(&adam);
    println!("{waits:.3} bytes per parameter where the host waits, {goes:.3} where it does not");
    assert!((goes - waits).abs() < 0.05);
    let one_by_one = after_steps::<Goes>(&adam.unfused());
    assert!(
        one_by_one > goes + 7.9,
        "{one_by_one}: two moments more, in F32"
    );
}
