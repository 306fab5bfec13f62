//! `burn_amp::Autodiff` is forgotten around `Amp`.

use burn::{backend::Flex, tensor::backend::AutodiffBackend};
use burn_amp::Amp;

fn train<B: AutodiffBackend>() {}

fn main() {
    train::<Amp<Flex>>();
}
