//! What is measured: a net with its batch and its loss, from the zoo or from the blocks.

use std::any::Any;

use anyhow::Result;
use burn::{
    module::AutodiffModule,
    prelude::*,
    tensor::{TensorData, backend::AutodiffBackend},
};
use zoo::{
    Draw, Example, Net, Size, ZOO, ZooModel,
    models::wgan::{Images, Wgan, WganConfig},
};

use crate::blocks::{self, BLOCKS};

/// How many times the zoo's own batch is measured, so that activations outweigh parameters.
const BATCHES: usize = 8;

/// A net with its batch and its loss.
pub trait Subject {
    type Net<B: AutodiffBackend>: AutodiffModule<B>;
    type Batch<B: AutodiffBackend>: Clone;

    fn init<B: AutodiffBackend>(&self, device: &B::Device) -> Self::Net<B>;

    /// Draws a batch of `times` as many items as the subject's.
    fn batch<B: AutodiffBackend>(&self, times: usize, device: &B::Device) -> Self::Batch<B>;

    /// Reads the batch that PyTorch saved.
    ///
    /// # Errors
    ///
    /// Returns an error if the example lacks a tensor of the batch.
    fn read_batch<B: AutodiffBackend>(
        &self,
        example: &Example,
        device: &B::Device,
    ) -> Result<Self::Batch<B>>;

    fn loss<B: AutodiffBackend>(&self, net: &Self::Net<B>, batch: &Self::Batch<B>) -> Tensor<B, 1>;

    /// Computes what a net that holds this one would go on with, and returns it with its graph: by default the loss.
    fn forward<B: AutodiffBackend>(
        &self,
        net: &Self::Net<B>,
        batch: &Self::Batch<B>,
    ) -> Box<dyn Any> {
        Box::new(self.loss(net, batch))
    }

    /// Runs a forward and a backward pass: by default from the loss.
    fn both_passes<B: AutodiffBackend>(
        &self,
        net: &Self::Net<B>,
        batch: &Self::Batch<B>,
    ) -> B::Gradients {
        self.loss(net, batch).backward()
    }

    /// Returns the gradient of the input, where it is computed.
    fn input_gradient<B: AutodiffBackend>(
        &self,
        _batch: &Self::Batch<B>,
        _grads: &B::Gradients,
    ) -> Option<TensorData> {
        None
    }
}

/// Work on a subject: a closure that is generic over it.
pub trait Visitor {
    type Output;

    fn visit<S: Subject>(self, subject: &S) -> Self::Output;
}

/// A model of the zoo.
struct Model<M> {
    model: M,
    items: usize,
}

impl<M: ZooModel> Subject for Model<M> {
    type Net<B: AutodiffBackend> = M::TrainNet<B>;
    type Batch<B: AutodiffBackend> = M::Batch<B>;

    fn init<B: AutodiffBackend>(&self, device: &B::Device) -> M::TrainNet<B> {
        M::TrainNet::init(&self.model, device)
    }

    fn batch<B: AutodiffBackend>(&self, times: usize, device: &B::Device) -> M::Batch<B> {
        self.model.batch(Draw::train(times * self.items, 0), device)
    }

    fn read_batch<B: AutodiffBackend>(
        &self,
        example: &Example,
        device: &B::Device,
    ) -> Result<M::Batch<B>> {
        Ok(M::read_batch(example, device)?)
    }

    fn loss<B: AutodiffBackend>(&self, net: &M::TrainNet<B>, batch: &M::Batch<B>) -> Tensor<B, 1> {
        net.loss(batch)
    }
}

/// The second loss of the WGAN; its first one, the critic's, is the zoo's.
struct Generator(Model<WganConfig>);

impl Subject for Generator {
    type Net<B: AutodiffBackend> = Wgan<B>;
    type Batch<B: AutodiffBackend> = Images<B>;

    fn init<B: AutodiffBackend>(&self, device: &B::Device) -> Wgan<B> {
        self.0.init(device)
    }

    fn batch<B: AutodiffBackend>(&self, times: usize, device: &B::Device) -> Images<B> {
        self.0.batch(times, device)
    }

    fn read_batch<B: AutodiffBackend>(
        &self,
        example: &Example,
        device: &B::Device,
    ) -> Result<Images<B>> {
        self.0.read_batch(example, device)
    }

    fn loss<B: AutodiffBackend>(&self, net: &Wgan<B>, batch: &Images<B>) -> Tensor<B, 1> {
        net.generator_loss(batch)
    }
}

const GENERATOR: &str = "wgan-generator";

/// Returns the names of all subjects: the zoo's models, then the blocks.
pub fn names() -> Vec<&'static str> {
    let models = ZOO.iter().map(|entry| entry.name);
    models
        .chain([GENERATOR])
        .chain(BLOCKS.iter().copied())
        .collect()
}

/// Calls the visitor with the subject called `name`; `None` if there is none.
pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
    if name == GENERATOR {
        let items = zoo::entry("wgan").ok()?.batch_size(Size::Tiny) * BATCHES;
        let model = WganConfig::tiny();
        return Some(visitor.visit(&Generator(Model { model, items })));
    }
    if BLOCKS.contains(&name) {
        return blocks::visit(name, visitor);
    }
    zoo::visit(name, Size::Tiny, OfZoo(visitor)).ok()
}

/// Visits a model of the zoo as a subject.
struct OfZoo<V>(V);

impl<V: Visitor> zoo::Visitor for OfZoo<V> {
    type Output = V::Output;

    fn visit<M: ZooModel>(self, entry: &'static zoo::Entry, model: M) -> V::Output {
        let items = entry.batch_size(Size::Tiny) * BATCHES;
        self.0.visit(&Model { model, items })
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, Flex};

    use super::*;
    use crate::memory;

    type B = Autodiff<Flex>;

    /// The loss of a batch.
    struct Loss;

    impl Visitor for Loss {
        type Output = f32;

        fn visit<S: Subject>(self, subject: &S) -> f32 {
            let device = Default::default();
            let batch = subject.batch::<B>(1, &device);
            subject.loss(&subject.init(&device), &batch).into_scalar()
        }
    }

    #[test]
    fn every_block_has_a_loss_and_a_generator_another_than_its_critic() {
        let _alone = memory::ALONE.lock();
        for name in BLOCKS {
            let loss = visit(name, Loss).unwrap();
            assert!(loss.is_finite() && loss != 0.0, "{name}: {loss}");
        }
        assert_ne!(visit("wgan", Loss), visit(GENERATOR, Loss));
        assert_eq!(visit("vgg", Loss), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names = names();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
