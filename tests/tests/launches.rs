//! How many kernels a training step launches, with the kernels of burn-amp and with their references. A binary of its own,
//! because CubeCL takes its log from the first client of a process.
#![cfg(feature = "vulkan")]

use std::{fs, path::Path, thread::sleep, time::Duration};

use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig,
        loss::CrossEntropyLossConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{
        Distribution, Int, Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp::config::{Class, Op};
use burn_amp_tests::{trace::Trace, *};

policy!(AmpBackend, computing_in(Compute::F16));
policy!(
    /// As Burn's `Autodiff` has them.
    Decomposed,
    Config {
        ops: [Op::softmax, Op::layer_norm, Op::gelu].map(|op| (op, Class::Full)).into(),
        ..computing_in(Compute::F16)
    }
);

/// A small transformer that classifies, with dropout.
#[derive(Module, Debug)]
struct Classifier<B: Backend> {
    encoder: TransformerEncoder<B>,
    head: Linear<B>,
}

const WIDTH: usize = 32;
const CLASSES: usize = 10;

impl<B: AutodiffBackend> Classifier<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            encoder: TransformerEncoderConfig::new(WIDTH, 64, 4, 2).init(device),
            head: LinearConfig::new(WIDTH, CLASSES).init(device),
        }
    }

    fn loss(&self, device: &B::Device) -> Tensor<B, 1> {
        let [batch, tokens] = [4, 8];
        let x = Tensor::random([batch, tokens, WIDTH], Distribution::Default, device);
        let y = self.encoder.forward(TransformerEncoderInput::new(x));
        let logits = self.head.forward(y).reshape([batch * tokens, CLASSES]);
        let targets = Tensor::<B, 1, Int>::zeros([batch * tokens], device);
        CrossEntropyLossConfig::new()
            .init(device)
            .forward(logits, targets)
    }
}

/// The launches in the log so far, when no more come.
fn launches(log: &Path) -> usize {
    let count = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("Executing"))
            .count()
    };
    let mut before = count();
    loop {
        sleep(Duration::from_millis(500));
        let now = count();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// The launches of one training step, after one that made the optimizer's state.
fn step<B: AutodiffBackend>(log: &Path) -> usize {
    let device = Default::default();
    let mut model = Classifier::<B>::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let mut seen = 0;
    let mut launched = 0;
    for _ in 0..3 {
        let grads = GradientsParams::from_grads(model.loss(&device).backward(), &model);
        model = optimizer.step(1e-3, model, grads);
        B::sync(&device).unwrap();
        let now = launches(log);
        launched = now - seen;
        seen = now;
    }
    launched
}

#[test]
fn kernels_launch_less_than_their_references() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("cubecl.log");
    let config = format!("[profiling]\nlogger = {{ level = \"minimal\", file = {log:?} }}\n");
    fs::write(directory.path().join("cubecl.toml"), config).unwrap();
    std::env::set_current_dir(directory.path()).unwrap();

    let plain = step::<PlainAutodiff>(&log);
    // A backend that burn-amp does not know computes with the references.
    let references = step::<burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, Decomposed>>>(&log);
    let kernels = step::<AmpAutodiff<AmpBackend>>(&log);
    println!(
        "launches per step: f32 {plain}, f16 with references {references}, f16 with kernels {kernels}"
    );
    assert!(kernels > 0);
    assert!(kernels < references);
}
