//! One training step: forward, loss, backward, update, sync; the unit that is timed.

use burn::{
    optim::Optimizer,
    prelude::*,
    tensor::backend::{AutodiffBackend, ExecutionError},
};
use burn_amp::scaling::LossScale;
use lab::recipe::Recipe;
use zoo::{Draw, LEARNING_RATE, Net, ZooModel};

/// The seed of the weights and of the batch.
const SEED: u64 = 0;

/// A seeded model with its optimizer and the batch it is trained on.
pub struct Training<B: AutodiffBackend, M: ZooModel, O> {
    /// `None` while a step has it.
    net: Option<M::TrainNet<B>>,
    batch: M::Batch<B>,
    optimizer: O,
    device: B::Device,
    loss_scale: Option<LossScale>,
    skipped_steps: u64,
    /// The loss of every step, still on the device.
    losses: Vec<Tensor<B::InnerBackend, 1>>,
}

/// Sets up a training of `model` by the recipe `R`.
pub fn training<B: AutodiffBackend, R: Recipe<B>, M: ZooModel>(
    model: &M,
    batch_size: usize,
    device: &B::Device,
    loss_scale: Option<LossScale>,
) -> Training<B, M, impl Optimizer<M::TrainNet<B>, B>> {
    B::seed(device, SEED);
    let batch = model.batch::<B>(Draw::train(batch_size, SEED), device);
    let net = M::TrainNet::<B>::init(model, device);
    net.num_params(); // draws the parameters, which are lazy
    Training {
        net: Some(R::store(net)),
        batch,
        optimizer: R::optimizer(),
        device: device.clone(),
        loss_scale,
        skipped_steps: 0,
        losses: Vec::new(),
    }
}

impl<B, M, O> Training<B, M, O>
where
    B: AutodiffBackend,
    M: ZooModel,
    O: Optimizer<M::TrainNet<B>, B>,
{
    /// Trainable scalars.
    pub fn parameters(&self) -> usize {
        self.net.as_ref().map_or(0, zoo::parameters::<B, _>)
    }

    /// Trains on the batch and waits for the device.
    ///
    /// # Errors
    ///
    /// Returns an error if something on the device failed, such as an allocation.
    pub fn step(&mut self) -> Result<(), ExecutionError> {
        let net = self.net.take().expect("a step that panics is the last one");
        let before = self.skipped_passes();
        let (net, loss) = M::step(net, &self.batch, &mut self.optimizer, LEARNING_RATE);
        self.net = Some(net);
        self.losses.push(loss);
        self.skipped_steps += u64::from(self.skipped_passes() > before);
        self.sync()
    }

    pub fn sync(&self) -> Result<(), ExecutionError> {
        B::sync(&self.device)
    }

    /// The loss of every step before its update; incurs a device-to-host read.
    pub fn losses(&self) -> Vec<f64> {
        let losses = Tensor::cat(self.losses.clone(), 0).into_data();
        losses.iter::<f64>().collect()
    }

    /// Steps in which at least one backward pass overflowed.
    pub fn skipped_steps(&self) -> u64 {
        self.skipped_steps
    }

    /// The current loss scale; 1 without loss scaling.
    pub fn loss_scale(&self) -> f64 {
        self.loss_scale.map_or(1.0, |scale| scale.scale().into())
    }

    fn skipped_passes(&self) -> u64 {
        self.loss_scale.map_or(0, |scale| scale.skipped_steps())
    }
}
