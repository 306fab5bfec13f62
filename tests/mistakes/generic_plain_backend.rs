//! Code over any plain backend `B` names `Amp<B>`.

use burn::tensor::{Tensor, backend::Backend};
use burn_amp::Amp;

fn infer<B: Backend>(device: &B::Device) {
    let _ = Tensor::<Amp<B>, 1>::zeros([1], device);
}

fn main() {
    infer::<burn::backend::Flex>(&Default::default());
}
