//! Measures the bytes that parameters, masters and moments take between two steps, on the heap of the CPU backend, and
//! compares them with the estimate. The test has a binary of its own, because the allocator counts the bytes of the whole
//! process.
//!
//! Law: the estimate of `memory` is what parameters, masters and moments take.
#![cfg(not(feature = "cubecl"))]

use burn_amp::{extend::NoGraph, memory, optim::Moments};
use burn_amp_tests::{apart::AmpAutodiff, prelude::*};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

policy!(O1, computing_in(Compute::Bf16));
policy!(O2, in_bf16(|it| it.preset = Preset::O2));

/// F16 with a loss scale of 1, so that no pass overflows; `sync` says whether the host waits for the check.
fn scaled(sync: bool) -> Config {
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Dynamic;
        it.loss_scale.rule.init = 1.0;
        it.loss_scale.rule.search = false;
        it.loss_scale.sync = sync;
    })
}

policy!(Waits, scaled(true));
policy!(Goes, scaled(false));

const WIDTH: usize = 512;

/// The bytes per parameter that a layer and its optimizer take after some steps, before the next pass.
fn after_steps<P: ConfigSource>(optimizer: &AmpOptimizer<AdamConfig>) -> f64 {
    type B<P> = AmpAutodiff<P>;
    fn run<A>(optimizer: &AmpOptimizer<AdamConfig>) -> usize
    where
        A: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
    {
        let x = Tensor::<A, 2>::random([1, WIDTH], Distribution::Default, &here());
        let before = HEAP.current_usage();
        let layer = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
        let mut layer: Linear<A> = cast_params(layer.init(&here()));
        let mut optimizer = optimizer.init();
        for _ in 0..3 {
            let loss = layer.forward(x.clone()).square().mean();
            layer = stepped(&mut optimizer, 1e-3, loss, layer);
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
    let bits8 = || adam().with_moments(Moments::Bits8);
    let layer = |width| -> Linear<Plain> {
        LinearConfig::new(width, width)
            .with_bias(false)
            .init(&here())
    };
    // Parameters are made when they are first read, so this model takes no memory.
    let (large, layer) = (layer(10_000), layer(WIDTH));
    for (name, preset, optimizer) in [
        ("o1", Preset::O1, adam()),
        ("o1, bf16 moments", Preset::O1, bf16()),
        ("o1, 8-bit moments", Preset::O1, bits8()),
        ("o2", Preset::O2, adam()),
        ("o2, bf16 moments", Preset::O2, bf16()),
        ("o2, 8-bit moments", Preset::O2, bits8()),
        (
            "o2, split masters, bf16 moments",
            Preset::O2,
            bf16().with_masters(Masters::Split),
        ),
        (
            "o2, split masters, 8-bit moments",
            Preset::O2,
            bits8().with_masters(Masters::Split),
        ),
        (
            "o2, masters in 24 bits, 8-bit moments",
            Preset::O2,
            bits8().with_masters(Masters::Bits24),
        ),
        (
            "o2, no masters, bf16 moments",
            Preset::O2,
            bf16().with_masters(Masters::Stochastic),
        ),
        (
            "o2, no masters, 8-bit moments",
            Preset::O2,
            bits8().with_masters(Masters::Stochastic),
        ),
    ] {
        let estimate = memory::estimate(&layer, preset, &optimizer);
        // There are no gradients between two steps.
        let expected = (estimate.total() - estimate.gradients) as f64 / (WIDTH * WIDTH) as f64;
        let found = match preset {
            Preset::O1 => after_steps::<O1>(&optimizer),
            _ => after_steps::<O2>(&optimizer),
        };
        let large = memory::estimate(&large, preset, &optimizer);
        println!(
            "{name}: {found:.3} bytes per parameter, estimate {expected}; 100 M parameters with gradients: {} bytes",
            large.total()
        );
        assert_eq!(large.parameters, 100_000_000);
        assert_eq!(large.per_parameter(), estimate.per_parameter());
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
}

/// The most bytes per parameter at any time of a step, from its gradients on, of a model of several layers.
fn peak_of_a_step<P: ConfigSource>(optimizer: &AmpOptimizer<AdamConfig>) -> f64 {
    type B<P> = AmpAutodiff<P>;
    const LAYERS: usize = 16;
    const WIDTH: usize = 256;
    let x = Tensor::<B<P>, 2>::random([1, WIDTH], Distribution::Default, &here());
    let outside = HEAP.current_usage();
    let layer = || -> Linear<B<P>> {
        let layer = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
        cast_params(layer.init(&here()))
    };
    let mut layers: Vec<_> = (0..LAYERS).map(|_| layer()).collect();
    let mut optimizer = optimizer.init();
    let mut peak = 0;
    for _ in 0..3 {
        let loss = layers.iter().fold(x.clone(), |x, layer| layer.forward(x));
        let grads = GradientsParams::from_grads(loss.square().mean().backward(), &layers);
        HEAP.reset_peak_usage();
        layers = optimizer.step(1e-3, layers, grads);
        peak = HEAP.peak_usage() - outside;
    }
    peak as f64 / (LAYERS * WIDTH * WIDTH) as f64
}

/// A step that may be skipped on the device never has a second copy of the whole state, either: what it takes above
/// one that the host decides is for one parameter at a time.
#[test]
fn the_peak_of_a_step_that_may_be_skipped_has_no_second_state() {
    let adam = AmpOptimizer::new(AdamConfig::new());
    let waits = peak_of_a_step::<Waits>(&adam);
    let goes = peak_of_a_step::<Goes>(&adam);
    println!(
        "peak of a step, in bytes per parameter: {waits:.2} where the host waits, {goes:.2} where it does not"
    );
    // Parameter, gradient, two moments and the copy in F16 are 18 bytes; a parameter has a sixteenth of them.
    assert!(waits < 20.0 && goes < 20.0, "{waits}, {goes}");
}
