//! An `AmpOptimizer` for a model on a backend without `Amp`.

use burn::{
    backend::{Autodiff, Flex},
    nn::Linear,
    optim::AdamConfig,
};
use burn_amp::optim::AmpOptimizer;

fn main() {
    AmpOptimizer::new(AdamConfig::new()).init::<Autodiff<Flex>, Linear<Autodiff<Flex>>>();
}
