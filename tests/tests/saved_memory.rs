//! Measures the bytes that a graph keeps for the backward pass, on the heap of the CPU backend. The test has a binary
//! of its own, because the allocator counts the bytes of the whole process.
//!
//! Law: a BERT block, a residual block, recurrent layers and an attention keep at most 0.55 of what they keep in F32; a function
//! behind a norm keeps nothing; low copies of parameters end with the backward pass.
#![cfg(not(feature = "cubecl"))]

use burn::{
    nn::{
        BiLstmConfig, GroupNormConfig, GruConfig, Lstm, LstmConfig, PaddingConfig2d, RnnConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{activation::silu, module::attention},
};
use burn_amp_tests::{apart::AmpAutodiff, prelude::*};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

// A quarter of BERT-base in each of its sizes but the tokens, so that parameters, activations and scores have its shares.
const BATCH: usize = 2;
const TOKENS: usize = 512;
const WIDTH: usize = 768 / 4;
const HEADS: usize = 12 / 4;
const FEED_FORWARD: usize = 3072 / 4;

policy!(WithKernels, computing_in(Compute::Bf16));
type Low = AmpAutodiff<WithKernels>;

policy!(
    /// Computes these ops as Burn's `Autodiff` does: composed of several ops, in F32.
    Decomposed,
    in_bf16(|it| {
        it.ops = [Op::softmax, Op::log_softmax, Op::layer_norm, Op::gelu]
            .map(|op| (op, Class::Full))
            .into();
    })
);

/// The bytes that the graph of one encoder block keeps after the forward pass.
///
/// Its parameters, input and output are not counted.
fn saved<B: AutodiffBackend>() -> usize {
    let block: TransformerEncoder<B> =
        TransformerEncoderConfig::new(WIDTH, FEED_FORWARD, HEADS, 1).init(&here());
    let x = Tensor::<B, 3>::random([BATCH, TOKENS, WIDTH], Distribution::Default, &here());
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
        "a quarter of a block of BERT-base, batch {BATCH}, {TOKENS} tokens: f32 {:.1} MiB, o1 decomposed {:.1} MiB, o1 {:.1} MiB",
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

/// The bytes that the graph of a block keeps after its second forward pass, when its parameters have their low copies,
/// with its input.
fn kept<B: AutodiffBackend, const D: usize, const E: usize>(
    shape: [usize; D],
    block: impl Fn(Tensor<B, D>) -> Tensor<B, E>,
) -> usize {
    let input = || Tensor::random(shape, Distribution::Default, &here());
    let first = block(input()).sum();
    let before = HEAP.current_usage();
    // The sum keeps nothing.
    let second = block(input()).sum();
    let kept = HEAP.current_usage() - before;
    drop((first, second));
    kept
}

fn residual_block<B: AutodiffBackend>() -> usize {
    let conv = || {
        Conv2dConfig::new([16, 16], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false)
            .init::<B>(&here())
    };
    let layers: [(Conv2d<B>, BatchNorm<B>); 2] =
        [(); 2].map(|()| (conv(), BatchNormConfig::new(16).init(&here())));
    kept::<B, 4, 4>([8, 16, 16, 16], |x| {
        let [(first, first_norm), (second, second_norm)] = &layers;
        let y = relu(first_norm.forward(first.forward(x.clone())));
        relu(second_norm.forward(second.forward(y)) + x)
    })
}

fn lstm<B: AutodiffBackend>() -> usize {
    let lstm: Lstm<B> = LstmConfig::new(64, 128, true).init(&here());
    kept::<B, 3, 3>([256, 8, 64], |x| lstm.forward(x, None).0)
}

fn bidirectional_lstm<B: AutodiffBackend>() -> usize {
    let lstm = BiLstmConfig::new(64, 128, true).init::<B>(&here());
    kept::<B, 3, 3>([256, 8, 64], |x| lstm.forward(x, None).0)
}

/// Burn composes it of products and sums with biases, where other layers have linear ones.
fn gru<B: AutodiffBackend>() -> usize {
    let gru = GruConfig::new(64, 128, true).init::<B>(&here());
    kept::<B, 3, 3>([256, 8, 64], |x| gru.forward(x, None))
}

fn rnn<B: AutodiffBackend>() -> usize {
    let rnn = RnnConfig::new(64, 128, true).init::<B>(&here());
    kept::<B, 3, 3>([256, 8, 64], |x| rnn.forward(x, None).0)
}

/// Queries, keys and values are products of one input, as in a transformer.
fn self_attention<B: AutodiffBackend>() -> usize {
    let linear = || -> Linear<B> { LinearConfig::new(64, 64).init(&here()) };
    let layers = [linear(), linear(), linear()];
    kept::<B, 3, 4>([2, 256, 64], |x| {
        let heads = |layer: &Linear<B>| {
            let y = layer.forward(x.clone());
            y.reshape([2, 256, 4, 16]).swap_dims(1, 2)
        };
        let [query, key, value] = layers.each_ref().map(heads);
        attention(query, key, value, None, None, Default::default())
    })
}

#[test]
fn nets_of_every_kind_keep_about_half_of_what_they_keep_in_f32() {
    let kept = [
        (
            "residual block",
            residual_block::<PlainAutodiff>(),
            residual_block::<Low>(),
        ),
        ("GRU", gru::<PlainAutodiff>(), gru::<Low>()),
        ("LSTM", lstm::<PlainAutodiff>(), lstm::<Low>()),
        (
            "bidirectional LSTM",
            bidirectional_lstm::<PlainAutodiff>(),
            bidirectional_lstm::<Low>(),
        ),
        ("RNN", rnn::<PlainAutodiff>(), rnn::<Low>()),
        (
            "attention",
            self_attention::<PlainAutodiff>(),
            self_attention::<Low>(),
        ),
    ];
    for (name, plain, low) in kept {
        println!("{name}: f32 {plain} bytes, o1 {low} bytes");
        assert!(100 * low <= 55 * plain, "{name}: {low} of {plain} bytes");
    }
}

/// What is kept of a product, a group norm of it, and a function of that.
fn norm_and<B: AutodiffBackend>(function: fn(Tensor<B, 4>) -> Tensor<B, 4>) -> usize {
    let product: Linear<B> = LinearConfig::new(16, 16).init(&here());
    let norm = GroupNormConfig::new(4, 16).init::<B>(&here());
    kept::<B, 4, 4>([8, 16, 16, 16], |x| {
        function(norm.forward(product.forward(x)))
    })
}

#[test]
fn a_function_behind_a_norm_keeps_nothing_more() {
    let norm = norm_and::<Low>(|x| x);
    type Function = fn(Tensor<Low, 4>) -> Tensor<Low, 4>;
    let functions: [(&str, Function); 4] = [
        ("relu", relu),
        ("clamp", |x| x.clamp(0.0, 6.0)),
        ("sigmoid", sigmoid),
        ("silu", silu),
    ];
    for (name, function) in functions {
        let both = norm_and::<Low>(function);
        // The result has 65536 bytes in BF16.
        assert!(both < norm + 32768, "{name}: {both} bytes, the norm {norm}");
    }
    let plain = norm_and::<PlainAutodiff>(silu);
    assert!(3 * norm < plain, "{norm} of {plain} bytes");
}

#[derive(Module, Debug)]
struct Mlp<B: Backend> {
    layers: Vec<Linear<B>>,
}

#[test]
fn the_low_copies_of_parameters_are_gone_after_the_backward_pass() {
    const WIDTH: usize = 256;
    const LAYERS: usize = 4;

    let linear = |_| LinearConfig::new(WIDTH, WIDTH).init(&here());
    let model = Mlp::<Low> {
        layers: (0..LAYERS).map(linear).collect(),
    };
    model.num_params(); // draws the parameters, which are lazy
    let input = || Tensor::<Low, 2>::random([2, WIDTH], Distribution::Default, &here());
    let loss = |x| {
        model
            .layers
            .iter()
            .fold(x, |x, layer| layer.forward(x))
            .sum()
    };
    // A backward pass frees the graphs that other tests have dropped.
    drop(loss(input()).backward());
    let before = HEAP.current_usage();
    let grads = loss(input()).backward();
    let gradients = LAYERS * (WIDTH * WIDTH + WIDTH) * size_of::<f32>();
    let held = HEAP.current_usage() as isize - (before + gradients) as isize;
    drop(grads);
    let one_copy = (WIDTH * WIDTH * size_of::<u16>()) as isize;
    assert!(held.abs() < one_copy, "{held} bytes besides the gradients");
}
