//! The parts that nets are made of, one by one, as a user of Burn writes them.
//!
//! `examples/lab/pytorch/blocks.py` has the same blocks with the same shapes and names of parameters.
//!
//! * [`attention`], [`conv`], [`feed_forward`], [`recurrent`]: the blocks

mod attention;
mod conv;
mod feed_forward;
mod recurrent;

use std::any::Any;

use anyhow::Result;
use burn::{
    module::AutodiffModule,
    prelude::*,
    tensor::{Distribution, TensorData, backend::AutodiffBackend},
};
use zoo::Example;

use crate::{
    counting::skip_through,
    subject::{Subject, Visitor},
};

/// A block with an input and an output of rank `D`.
pub trait Block<const D: usize>: Sync {
    type Net<B: AutodiffBackend>: AutodiffModule<B>;

    const INPUT: [usize; D];
    const OUTPUT: [usize; D] = Self::INPUT;

    /// Whether the gradient of the input is computed too. It is where the block has no parameters, or where its input
    /// is an activation in the nets that it is a part of.
    const INPUT_REQUIRES_GRAD: bool = false;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Self::Net<B>;

    fn forward<B: AutodiffBackend>(net: &Self::Net<B>, x: Tensor<B, D>) -> Tensor<B, D>;
}

/// A block as a subject. Its loss is the mean of the output times fixed weights, so that the loss keeps nothing of its
/// own and each element of the output has another gradient.
struct Of<T, const D: usize>(T);

/// An input, and the weights of the output's elements in the loss.
#[derive(Clone)]
pub struct Batch<B: Backend, const D: usize> {
    x: Tensor<B, D>,
    weights: Tensor<B, D>,
}

impl<T: Block<D>, const D: usize> Subject for Of<T, D> {
    type Net<B: AutodiffBackend> = T::Net<B>;
    type Batch<B: AutodiffBackend> = Batch<B, D>;

    fn init<B: AutodiffBackend>(&self, device: &B::Device) -> T::Net<B> {
        T::init(device)
    }

    fn batch<B: AutodiffBackend>(&self, times: usize, device: &B::Device) -> Batch<B, D> {
        let normal = |mut shape: [usize; D]| {
            shape[0] *= times;
            Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
        };
        Batch {
            x: normal(T::INPUT).set_require_grad(T::INPUT_REQUIRES_GRAD),
            weights: normal(T::OUTPUT),
        }
    }

    fn read_batch<B: AutodiffBackend>(
        &self,
        example: &Example,
        device: &B::Device,
    ) -> Result<Batch<B, D>> {
        let x: Tensor<B, D> = example.floats("batch.x", device)?;
        Ok(Batch {
            x: x.set_require_grad(T::INPUT_REQUIRES_GRAD),
            weights: example.floats("batch.weights", device)?,
        })
    }

    fn loss<B: AutodiffBackend>(&self, net: &T::Net<B>, batch: &Batch<B, D>) -> Tensor<B, 1> {
        (T::forward(net, batch.x.clone()) * batch.weights.clone()).mean()
    }

    /// The output, which the next block reads.
    fn forward<B: AutodiffBackend>(&self, net: &T::Net<B>, batch: &Batch<B, D>) -> Box<dyn Any> {
        Box::new(T::forward(net, batch.x.clone()))
    }

    /// Starts the backward pass from one element of the output, and does not record how its gradient becomes that of the
    /// whole output: a loss over a single block would move more bytes than some blocks do.
    fn both_passes<B: AutodiffBackend>(
        &self,
        net: &T::Net<B>,
        batch: &Batch<B, D>,
    ) -> B::Gradients {
        let element = T::forward(net, batch.x.clone()).slice([(); D].map(|()| 0..1));
        skip_through("float_slice_assign");
        element.sum().backward()
    }

    fn input_gradient<B: AutodiffBackend>(
        &self,
        batch: &Batch<B, D>,
        grads: &B::Gradients,
    ) -> Option<TensorData> {
        let gradient = batch.x.grad(grads)?;
        T::INPUT_REQUIRES_GRAD.then(|| gradient.into_data())
    }
}

/// Declares [`BLOCKS`] and [`visit`]. A macro, because a value cannot hold the blocks' types.
macro_rules! blocks {
    ($($name:literal $block:expr;)+) => {
        /// The names of all blocks.
        pub const BLOCKS: &[&str] = &[$($name),+];

        /// Calls the visitor with the block called `name`, if there is one.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(visitor.visit(&Of($block))),)+
                _ => None,
            }
        }
    };
}

blocks! {
    "qkv" attention::Qkv;
    "rope" attention::Rope;
    "attention" attention::Attention;
    "mha" attention::SelfAttention;
    "relu-mlp" feed_forward::ReluMlp;
    "tanh" feed_forward::Tanh;
    "softplus" feed_forward::Softplus;
    "mish" feed_forward::Mish;
    "swiglu" feed_forward::GatedUnit;
    "rms-norm" feed_forward::Norm;
    "llama-mlp" feed_forward::LlamaMlp;
    "bn-residual" conv::BatchNormResidual;
    "gn-silu" conv::GroupNormSilu;
    "lstm-block" recurrent::LongShortTerm;
}
