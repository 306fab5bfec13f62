//! Counts the kernels that a training step launches, with burn-amp's kernels and with their references. The test has a
//! binary of its own, because CubeCL configures its log with the first client of a process.
//!
//! Law: a training step launches fewer kernels than with the references.

use std::{fs, path::Path, thread::sleep, time::Duration};

use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn_amp_tests::{prelude::*, trace::Trace};

policy!(WithKernels, computing_in(Compute::F16));
policy!(
    /// Computes these ops as Burn's `Autodiff` does: composed of several ops, in F32.
    Decomposed,
    in_f16(|it| {
        it.ops = [Op::softmax, Op::layer_norm, Op::gelu]
            .map(|op| (op, Class::Full))
            .into();
    })
);

policy!(Deferred, in_f16(|it| it.loss_scale.sync = false));

/// A small transformer with dropout for classification.
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

/// Waits until the log stops growing and returns the number of launches in it.
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

/// The launches of a training step.
#[derive(Debug)]
struct Step {
    /// All of them.
    all: usize,
    /// Those from the gradients to the new parameters, and of whatever makes the parameters ready for the next forward pass.
    of_optimizer: usize,
}

/// Counts the launches of the third training step, when the optimizer's state exists.
fn step<B: AutodiffBackend, O: Optimizer<Classifier<B>, B>>(log: &Path, mut optimizer: O) -> Step {
    let mut model = Classifier::<B>::new(&here());
    let mut seen = launches(log);
    let mut found = None;
    for _ in 0..3 {
        let grads = model.loss(&here()).backward();
        B::sync(&here()).unwrap();
        let backward = launches(log);
        let grads = GradientsParams::from_grads(grads, &model);
        model = optimizer.step(1e-3, model, grads);
        B::sync(&here()).unwrap();
        let now = launches(log);
        found = Some(Step {
            all: now - seen,
            of_optimizer: now - backward,
        });
        seen = now;
    }
    found.expect("three steps were made")
}

#[test]
fn kernels_launch_less_than_their_references() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("cubecl.log");
    let config = format!("[profiling]\nlogger = {{ level = \"minimal\", file = {log:?} }}\n");
    fs::write(directory.path().join("cubecl.toml"), config).unwrap();
    std::env::set_current_dir(directory.path()).unwrap();

    let adam = AdamConfig::new;
    let plain = step::<PlainAutodiff, _>(&log, adam().init());
    // `Trace` uses the references instead of the kernels.
    type References = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, Decomposed>>;
    let references = step::<References, _>(&log, adam().init());
    let [burns, kernels, clipped] = {
        let _policy = enter::<WithKernels>();
        type B = AmpAutodiff;
        let clipped = AmpOptimizer::new(adam()).with_clipping(Clipping::GlobalNorm(1.0));
        [
            step::<B, _>(&log, adam().init()),
            step::<B, _>(&log, AmpOptimizer::new(adam()).init()),
            step::<B, _>(&log, clipped.init()),
        ]
    };
    let _policy = enter::<Deferred>();
    let deferred = step::<AmpAutodiff, _>(&log, AmpOptimizer::new(adam()).init());
    println!(
        "launches per step: f32 {plain:?}, f16 with references {references:?}, f16 with kernels and Burn's Adam \
         {burns:?}, with AmpOptimizer {kernels:?}, with clipping {clipped:?}, without waiting {deferred:?}"
    );
    assert!(burns.all < references.all);
    assert!(kernels.all <= 400);
    // 34 parameters, for 5 of which the software driver has bindings per launch; CUDA takes 16 at once
    // and more of longer lists. Clipping adds the
    // norm, one launch for 16 gradients, and the arithmetic of one number.
    assert!(kernels.of_optimizer <= 12 && deferred.of_optimizer <= 12);
    assert!(clipped.of_optimizer <= 24);
}
