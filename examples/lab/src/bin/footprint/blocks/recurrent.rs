//! Recurrent layers.

use burn::{
    module::Module,
    nn::{Lstm, LstmConfig},
    prelude::*,
    tensor::backend::AutodiffBackend,
};

use super::Block;

/// An LSTM over 32 steps; its output is that of every step.
pub struct LongShortTerm;

#[derive(Module, Debug)]
pub struct Recurrent<B: Backend> {
    layer: Lstm<B>,
}

impl Block<3> for LongShortTerm {
    type Net<B: AutodiffBackend> = Recurrent<B>;

    const INPUT: [usize; 3] = [32, 32, 64];

    fn init<B: AutodiffBackend>(device: &B::Device) -> Recurrent<B> {
        Recurrent {
            layer: LstmConfig::new(64, 64, true).init(device),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Recurrent<B>, x: Tensor<B, 3>) -> Tensor<B, 3> {
        net.layer.forward(x, None).0
    }
}
