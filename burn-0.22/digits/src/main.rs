//! Trains a small convolutional net on the UCI optical digits with Burn 0.22, in the precision that `amp.toml` or the
//! variables `BURN_AMP_*` choose.
//!
//! [`data`], [`model`] and the loop are plain Burn. What burn-amp says of the run is in [`about`].

mod data;
mod model;

use anyhow::Result;
use burn::{
    module::Module,
    nn::loss::CrossEntropyLossConfig,
    optim::{AdamWConfig, GradientsParams},
    tensor::Device,
};

use data::Digit;
use model::Model;

const EPOCHS: usize = 8;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 3e-3;
const SEED: u64 = 42;

fn main() -> Result<()> {
    let device = Device::default().autodiff();
    let [train, test] = data::read()?;
    device.seed(SEED);
    let mut model = Model::new(&device);
    let mut optimizer = AdamWConfig::new().init();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    for epoch in 1..=EPOCHS {
        let (mut total, mut steps) = (0.0, 0);
        for digits in train.chunks(BATCH) {
            let batch = data::batch(digits.iter(), &device);
            let loss = loss_of.forward(model.forward(batch.images), batch.classes);
            total += loss.clone().into_scalar::<f32>();
            steps += 1;
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(LEARNING_RATE, model, gradients);
        }
        println!(
            "epoch {epoch}: loss {:.4}, {:.1} % of the test digits right",
            total / steps as f32,
            100.0 * accuracy(&model, &test, &device)
        );
    }
    about(&device)
}

/// The share of digits that the model gets right. It is plain Burn, in F32.
fn accuracy(model: &Model, digits: &[Digit], device: &Device) -> f64 {
    let batch = data::batch(digits.iter(), &device.clone().without_autodiff());
    let found = model
        .valid()
        .forward(batch.images)
        .argmax(1)
        .flatten::<1>(0, 1);
    let right = found.equal(batch.classes).int().sum().into_scalar::<i64>();
    right as f64 / digits.len() as f64
}

/// Prints in which precision the model was trained. An error if burn-amp is not in the program.
fn about(device: &Device) -> Result<()> {
    let config = burn_amp::effective_config(device)?;
    let scale = burn_amp::loss_scale(device)?;
    println!(
        "computed in {}; loss scale {}, {} of {} steps skipped",
        config.compute.name(),
        scale.scale(),
        scale.skipped_steps(),
        scale.steps()
    );
    Ok(())
}
