//! Measures the bytes that a graph keeps for the backward pass, on the heap of the CPU backend. The test has a binary
//! of its own, because the allocator counts the bytes of the whole process.
#![cfg(not(feature = "cubecl"))]

use burn::{
    nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    tensor::{Distribution, Tensor, backend::AutodiffBackend},
};
use burn_amp::config::{Class, Op};
use burn_amp_tests::*;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const BATCH: usize = 8;
const TOKENS: usize = 512;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const FEED_FORWARD: usize = 3072;

policy!(WithKernels, computing_in(Compute::Bf16));
policy!(
    /// Computes these ops as Burn's `Autodiff` does: composed of several ops, in F32.
    Decomposed,
    Config {
        ops: [Op::softmax, Op::log_softmax, Op::layer_norm, Op::gelu]
            .map(|op| (op, Class::Full))
            .into(),
        ..computing_in(Compute::Bf16)
    }
);

/// The bytes that the graph of one encoder block of BERT-base keeps after the forward pass.
///
/// Its parameters, input and output are not counted.
fn saved<B: AutodiffBackend>() -> usize {
    let device = Default::default();
    let block: TransformerEncoder<B> =
        TransformerEncoderConfig::new(WIDTH, FEED_FORWARD, HEADS, 1).init(&device);
    let x = Tensor::<B, 3>::random([BATCH, TOKENS, WIDTH], Distribution::Default, &device);
    let before = HEAP.current_usage();
    let output = block.forward(TransformerEncoderInput::new(x));
    let output_bytes = BATCH * TOKENS * WIDTH * size_of::<f32>();
    let saved = HEAP.current_usage() - before - output_bytes;
    drop(output);
    saved
}

#[test]
fn a_bert_block_keeps_half_of_what_it_keeps_in_f32() {
    let plain = saved::<PlainAutodiff>();
    let decomposed = saved::<AmpAutodiff<Decomposed>>();
    let kernels = saved::<AmpAutodiff<WithKernels>>();
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!(
        "one block of BERT-base, batch {BATCH}, {TOKENS} tokens: f32 {:.0} MiB, o1 decomposed {:.0} MiB, o1 {:.0} MiB",
        mib(plain),
        mib(decomposed),
        mib(kernels)
    );
    assert!(kernels < decomposed);
    assert!(
        2 * kernels <= plain,
        "{:.2} of f32",
        kernels as f64 / plain as f64
    );
}
