//! `Amp` is around Burn's `Autodiff`, and not inside burn-amp's.

use burn::{
    backend::{Autodiff, Flex},
    tensor::backend::AutodiffBackend,
};
use burn_amp::Amp;

fn train<B: AutodiffBackend>() {}

fn main() {
    train::<Amp<Autodiff<Flex>>>();
}
