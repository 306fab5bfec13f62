//! `burn_amp::Autodiff` is around itself.

use burn::{backend::Flex, tensor::Tensor};
use burn_amp::{Amp, Autodiff};

type B = Autodiff<Autodiff<Amp<Flex>>>;

fn main() {
    let _ = Tensor::<B, 1>::zeros([1], &Default::default());
}
