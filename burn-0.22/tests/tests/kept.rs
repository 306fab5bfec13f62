//! Law: the graph of a block keeps at most 0.55 of the bytes that it keeps in F32, the goal of Burn 0.21. The heap of the CPU
//! backend is measured.

use burn::{
    nn::{
        BatchNormConfig, PaddingConfig2d,
        conv::Conv2dConfig,
        transformer::{TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{Device, Distribution, Tensor, activation::relu},
};
use burn_amp::config::{Compute, Config};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The most that a block may keep, as a share of F32's bytes.
const GOAL: f64 = 0.55;

/// The share of F32's bytes that the graph of a block keeps, with its input, after the second forward pass, when its
/// parameters have their low copies.
fn share<const D: usize>(shape: [usize; D], block: impl Fn(Tensor<D>) -> Tensor<D>) -> f64 {
    let device = Device::flex().autodiff();
    let kept = || {
        let loss = || block(Tensor::random(shape, Distribution::Default, &device)).sum();
        let first = loss();
        let before = HEAP.current_usage();
        let second = loss();
        let kept = HEAP.current_usage() - before;
        drop((first, second));
        kept as f64
    };
    let low = kept();
    low / burn_amp::full_precision(kept).unwrap()
}

#[test]
fn blocks_keep_half_of_what_they_keep_in_f32() {
    let device = Device::flex().autodiff();
    let config = Config {
        compute: Compute::Bf16,
        ..Config::default()
    };
    burn_amp::configure(&device, config).unwrap();

    let encoder = TransformerEncoderConfig::new(192, 768, 3, 1).init(&device);
    let encoder = share([1, 256, 192], |x| {
        encoder.forward(TransformerEncoderInput::new(x))
    });
    let layer = || {
        let conv = Conv2dConfig::new([16, 16], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false);
        (conv.init(&device), BatchNormConfig::new(16).init(&device))
    };
    let [first, second] = [layer(), layer()];
    let residual = share([8, 16, 16, 16], |x| {
        let y = relu(first.1.forward(first.0.forward(x.clone())));
        relu(second.1.forward(second.0.forward(y)) + x)
    });
    println!("an encoder block keeps {encoder:.2} of F32's bytes, a residual block {residual:.2}");
    assert!(
        encoder <= GOAL && residual <= GOAL,
        "{encoder:.2}, {residual:.2}"
    );
}
