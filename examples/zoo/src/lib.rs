//! The models people train, in plain Burn.
//!
//! No file here mentions precision: it comes with the backend that the models are called with.
//!
//! ```
//! use burn::{backend::{Autodiff, Flex}, prelude::*, tensor::backend::AutodiffBackend};
//! use zoo::{Draw, Entry, Net, Size, Visitor, ZooModel, adamw};
//!
//! /// Trains a model for some steps and returns its last loss.
//! struct Train<B: AutodiffBackend> {
//!     steps: u64,
//!     device: B::Device,
//! }
//!
//! impl<B: AutodiffBackend> Visitor for Train<B> {
//!     type Output = f32;
//!
//!     fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> f32 {
//!         let mut net = M::TrainNet::<B>::init(&model, &self.device);
//!         let mut optimizer = adamw().init();
//!         let mut last = f32::NAN;
//!         for step in 0..self.steps {
//!             let batch = model.batch::<B>(Draw::train(entry.batch_size(Size::Tiny), step), &self.device);
//!             let (next, loss) = M::step(net, &batch, &mut optimizer, zoo::LEARNING_RATE);
//!             (net, last) = (next, loss.into_scalar().elem());
//!         }
//!         last
//!     }
//! }
//!
//! type B = Autodiff<Flex>;
//! let train = Train::<B> { steps: 2, device: Default::default() };
//! assert!(zoo::visit("mlp", Size::Tiny, train).unwrap() > 0.0);
//! ```
//!
//! * [`ZOO`], [`visit`]: the table of all models, and the way to run code generic over the model for one chosen by name
//! * [`ZooModel`], [`Net`]: the traits of a model: the module, its batches, its loss, a training step
//! * [`models`]: one file per model
//! * [`Draw`]: says which batch to draw; batches are drawn on the host, from a play or from random numbers
//! * [`weights`], [`Example`]: load weights, and the batch next to them, that PyTorch saved
//! * [`parameters`]: counts a model's parameters without allocating them

mod accuracy;
mod batch;
mod draw;
mod example;
mod loss;
mod model;
pub mod models;
mod parameters;
mod size;
mod table;
mod text;
mod training;
pub mod weights;

pub use batch::{Labelled, Masked, Sequences};
pub use draw::{Draw, Part};
pub use example::Example;
pub use model::{Net, ZooModel};
pub use parameters::parameters;
pub use size::{Size, UnknownSize};
pub use table::{Entry, UnknownModel, Visitor, ZOO, entry, visit};
pub use training::{LEARNING_RATE, adamw};
