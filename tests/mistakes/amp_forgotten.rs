//! `Amp` is forgotten inside `burn_amp::Autodiff`.

use burn::{backend::Flex, tensor::Tensor};

type B = burn_amp::Autodiff<Flex>;

fn main() {
    let _ = Tensor::<B, 1>::zeros([1], &Default::default());
}
