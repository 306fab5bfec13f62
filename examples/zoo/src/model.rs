//! The traits that every model of the zoo implements.

use std::fmt::Debug;

use burn::{
    module::{AutodiffModule, Module},
    optim::{GradientsParams, LearningRate, Optimizer},
    prelude::*,
    tensor::backend::AutodiffBackend,
};

use crate::{Draw, Example, weights::WeightsError};

/// A model's configuration, from which the net, its batches and its training step follow.
pub trait ZooModel: Clone + Debug + Send + Sync + 'static {
    /// Named inputs and targets.
    type Batch<B: Backend>: Clone;

    /// The module on any backend.
    type Net<B: Backend>: Net<B, Model = Self>;

    /// The same module on a backend that trains. It is a separate type, because a bound cannot say that `Net<B>` is an
    /// `AutodiffModule` wherever `B` is an `AutodiffBackend`.
    type TrainNet<B: AutodiffBackend>: Net<B, Model = Self>
        + AutodiffModule<B, InnerModule = Self::Net<B::InnerBackend>>;

    /// Returns the shape of one item of a batch's first tensor.
    fn item_shape(&self) -> Vec<usize>;

    /// Whether a lower loss means a better model; false where two nets play against each other.
    const LOSS_RANKS: bool = true;

    /// Draws a synthetic batch: the same values on every backend.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Self::Batch<B>;

    /// Reads the batch that the twin in PyTorch saved.
    ///
    /// # Errors
    ///
    /// Returns an error if the example lacks a tensor of the batch.
    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Self::Batch<B>, WeightsError>;

    /// Returns the number called `name` in the configuration, so that a command line can change it; `None` if there is
    /// none.
    fn number(&mut self, _name: &str) -> Option<&mut usize> {
        None
    }

    /// Trains on one batch: forward, loss, backward, update. Returns the loss before the update, of shape `[1]` and
    /// still on the device.
    fn step<B: AutodiffBackend, O: Optimizer<Self::TrainNet<B>, B>>(
        net: Self::TrainNet<B>,
        batch: &Self::Batch<B>,
        optimizer: &mut O,
        learning_rate: LearningRate,
    ) -> (Self::TrainNet<B>, Tensor<B::InnerBackend, 1>) {
        let loss = net.loss(batch);
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        (optimizer.step(learning_rate, net, grads), loss.inner())
    }
}

/// A module of the zoo.
pub trait Net<B: Backend>: Module<B> {
    /// Its configuration.
    type Model: ZooModel;

    /// Makes the module. The backend draws the parameters from its seed when they are first used.
    fn init(model: &Self::Model, device: &B::Device) -> Self;

    /// Returns the mean loss over the batch, of shape `[1]`.
    fn loss(&self, batch: &<Self::Model as ZooModel>::Batch<B>) -> Tensor<B, 1>;

    /// Returns the share of the batch's targets that it predicts, of shape `[1]`; `None` if the model has no targets.
    fn accuracy(&self, _batch: &<Self::Model as ZooModel>::Batch<B>) -> Option<Tensor<B, 1>> {
        None
    }
}
