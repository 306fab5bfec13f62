//! Law: with Burn 0.22 the graph of an encoder, a residual block, an LSTM and an attention keeps at most 0.44 of the bytes
//! that it keeps in F32. Of further batches the graph of a model of the zoo keeps at most what it keeps on Burn 0.21, within 5 %. The
//! heap of the CPU backend is measured.

use std::{env, process::Command};

use burn::{
    nn::{
        BatchNormConfig, LinearConfig, LstmConfig, PaddingConfig2d,
        conv::Conv2dConfig,
        transformer::{TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{Device, Distribution, Tensor, activation::relu, module::attention},
};
use peak_alloc::PeakAlloc;
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The most that the blocks may keep, as a share of F32's bytes. On Burn 0.21 a residual block keeps as much, the LSTM 1.6 %
/// less, and the attention 4.5 % less.
const GOALS: [(&str, f64); 4] = [
    ("encoder", 0.44),
    ("residual", 0.4),
    ("lstm", 0.38),
    ("attention", 0.045),
];

/// The bytes that a graph keeps, with its input, after the second forward pass, when the parameters have their low copies.
fn kept<T>(forward: impl Fn() -> T) -> usize {
    let first = forward();
    let before = HEAP.current_usage();
    let second = forward();
    let kept = HEAP.current_usage() - before;
    drop((first, second));
    kept
}

/// The same of a block and a random input of a shape.
fn kept_by_block<const D: usize, const E: usize>(
    shape: [usize; D],
    block: impl Fn(Tensor<D>) -> Tensor<E>,
) -> usize {
    let device = Device::flex().autodiff();
    kept(|| block(Tensor::random(shape, Distribution::Default, &device)).sum())
}

#[test]
#[ignore = "the other test runs it, in a process for each policy"]
fn bytes() {
    // Ends the line that the harness has begun.
    println!();
    let device = Device::flex().autodiff();
    let encoder = TransformerEncoderConfig::new(192, 768, 3, 1).init(&device);
    let encode = |x| encoder.forward(TransformerEncoderInput::new(x));
    println!("encoder: {}", kept_by_block([1, 256, 192], encode));

    let layer = || {
        let conv = Conv2dConfig::new([16, 16], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false);
        (conv.init(&device), BatchNormConfig::new(16).init(&device))
    };
    let [first, second] = [layer(), layer()];
    let residual = |x: Tensor<4>| {
        let y = relu(first.1.forward(first.0.forward(x.clone())));
        relu(second.1.forward(second.0.forward(y)) + x)
    };
    println!("residual: {}", kept_by_block([8, 16, 16, 16], residual));

    let lstm = LstmConfig::new(64, 128, true).init(&device);
    println!(
        "lstm: {}",
        kept_by_block([256, 8, 64], |x| lstm.forward(x, None).0)
    );

    let linear = || LinearConfig::new(64, 64).init(&device);
    let layers = [linear(), linear(), linear()];
    let attend = |x: Tensor<3>| {
        let [query, key, value] = layers.each_ref().map(|layer| {
            let y = layer.forward(x.clone());
            y.reshape([2, 256, 4, 16]).swap_dims(1, 2)
        });
        attention(query, key, value, None, None, Default::default())
    };
    println!("attention: {}", kept_by_block([2, 256, 64], attend));
}

/// The bytes that the graph of a model keeps after a forward pass, with its batch: the model's own batch so many times.
struct Kept {
    batches: usize,
}

impl Visitor for Kept {
    type Output = usize;

    fn visit<M: ZooModel>(self, entry: &'static Entry, model: M) -> usize {
        let device = Device::flex().autodiff();
        let net = M::TrainNet::init(&model, &device);
        let draw = Draw::train(self.batches * entry.batch_size(Size::Tiny), 0);
        kept(|| net.loss(&model.batch(draw, &device)))
    }
}

fn print_bytes_of_the_zoo(batches: usize) {
    println!();
    for Entry { name, .. } in ZOO {
        let kept = zoo::visit(name, Size::Tiny, Kept { batches }).unwrap();
        println!("{name}: {kept}");
    }
}

#[test]
#[ignore = "the last test runs it, in a process of its own"]
fn bytes_of_eight_batches() {
    print_bytes_of_the_zoo(8);
}

#[test]
#[ignore = "the last test runs it, in a process of its own"]
fn bytes_of_sixteen_batches() {
    print_bytes_of_the_zoo(16);
}

/// The names of blocks or models, and the bytes that they keep under a policy.
fn measured(test: &str, variable: &str, value: &str) -> Vec<(String, f64)> {
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(variable, value)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(": "));
    let numbers = lines.filter_map(|(name, bytes)| Some((name.into(), bytes.parse().ok()?)));
    numbers.collect()
}

#[test]
fn blocks_keep_half_of_what_they_keep_in_f32() {
    let f32 = measured("bytes", "BURN_AMP_PRESET", "o0");
    let bf16 = measured("bytes", "BURN_AMP_COMPUTE", "bf16");
    assert_eq!((bf16.len(), f32.len()), (GOALS.len(), GOALS.len()));
    for (((name, low), (same, full)), (block, goal)) in bf16.into_iter().zip(f32).zip(GOALS) {
        assert_eq!([name.as_str(), same.as_str()], [block; 2]);
        println!("{name}: {low} bytes, {:.2} of F32's", low / full);
        assert!(low <= goal * full, "{name}: {:.2}", low / full);
    }
}

/// The bytes that the graph of each model keeps of eight further batches in BF16: tensors alone, for the nodes are as many. In
/// processes of their own, since the graph's tables grow with all that a process computes.
fn of_further_batches() -> Vec<(String, f64)> {
    let [eight, sixteen] = ["bytes_of_eight_batches", "bytes_of_sixteen_batches"]
        .map(|test| measured(test, "BURN_AMP_COMPUTE", "bf16"));
    assert_eq!([eight.len(), sixteen.len()], [ZOO.len(); 2]);
    let models = sixteen.into_iter().zip(eight);
    models
        .map(|((model, sixteen), (_, eight))| (model, sixteen - eight))
        .collect()
}

/// The same on Burn 0.21, from the page, which rounds to a KiB.
fn on_burn_0_21(model: &str) -> f64 {
    let page = include_str!("../../../book/src/footprint.md");
    let (_, table) = page.split_once("## Kept of each further batch").unwrap();
    let mut rows = table.lines().map(|line| line.split('|').map(str::trim));
    let mut row = rows.find(|row| row.clone().nth(1) == Some(model)).unwrap();
    // After the name, F32 and PyTorch's.
    let bf16: f64 = row.nth(4).unwrap().parse().unwrap();
    1024.0 * bf16
}

#[test]
fn models_keep_of_further_batches_what_they_keep_on_burn_0_21() {
    for (model, bytes) in of_further_batches() {
        let there = on_burn_0_21(&model);
        println!(
            "{model}: {bytes} bytes, {:.3} of those on Burn 0.21",
            bytes / there
        );
        // The page's bytes are rounded by at most half a KiB.
        assert!(bytes <= 1.05 * there + 512.0, "{model}: {bytes}, {there}");
    }
}
