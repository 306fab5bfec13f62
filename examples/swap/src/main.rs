//! The swap in one file: a small model and a training loop written by hand. Only the type `B` knows about precision.
//!
//! ```text
//! cargo run --release -p swap
//! ```
//!
//! `amp.toml` or the environment choose the precision, here F16. With a first loss scale of 2^40, which is far too
//! large, and without the search for a better one, the first steps overflow and are skipped until the scale fits:
//!
//! ```text
//! export BURN_AMP_LOSS_SCALE_INIT=1099511627776 BURN_AMP_LOSS_SCALE_MAX=1099511627776
//! BURN_AMP_LOSS_SCALE_SEARCH=false cargo run --release -p swap
//! ```

use burn::{
    backend::Flex,
    nn::{Linear, LinearConfig, Relu, loss::CrossEntropyLossConfig},
    optim::{AdamConfig, GradientsParams, Optimizer},
    prelude::*,
    tensor::{Distribution, backend::Backend},
};
use burn_amp::{
    Amp, Autodiff,
    config::{Compute, Config, SetupError},
};

// Before: type B = burn::backend::Autodiff<Flex>;
type B = Autodiff<Amp<Flex>>;

const FEATURES: usize = 16;
const CLASSES: usize = 4;

#[derive(Module, Debug)]
struct Model<B: Backend> {
    hidden: Linear<B>,
    activation: Relu,
    output: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            hidden: LinearConfig::new(FEATURES, 64).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(64, CLASSES).init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let hidden = self.activation.forward(self.hidden.forward(x));
        self.output.forward(hidden)
    }
}

/// Random points; the class of a point is the largest of its first numbers.
fn batch<B: Backend>(device: &B::Device) -> (Tensor<B, 2>, Tensor<B, 1, Int>) {
    let x = Tensor::random([64, FEATURES], Distribution::Default, device);
    let targets = x.clone().slice([0..64, 0..CLASSES]).argmax(1);
    (x, targets.squeeze_dim(1))
}

fn main() -> Result<(), SetupError> {
    let device = Default::default();
    B::seed(&device, 42);
    burn_amp::configure::<B>(
        &device,
        Config {
            compute: Compute::F16,
            ..Config::load()?
        },
    )?;
    let scale = burn_amp::loss_scale::<B>(&device);

    let mut model = Model::<B>::new(&device);
    let mut optimizer = AdamConfig::new().init();
    for step in 1..=200 {
        let (x, targets) = batch(&device);
        let output = model.forward(x);
        let loss = CrossEntropyLossConfig::new()
            .init(&device)
            .forward(output, targets);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model, grads);
        if step % 20 == 0 {
            let (loss, skipped) = (loss.into_scalar(), scale.skipped_steps());
            println!(
                "step {step:3}  loss {loss:.4}  loss scale {}  skipped {skipped}",
                scale.scale()
            );
        }
    }
    Ok(())
}
