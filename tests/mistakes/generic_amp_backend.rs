//! Code over any backend `B` asks for its loss scale.

use burn::tensor::backend::Backend;

fn scale<B: Backend>(device: &B::Device) -> f32 {
    burn_amp::loss_scale::<B>(device).scale()
}

fn main() {
    scale::<burn_amp::Amp<burn::backend::Flex>>(&Default::default());
}
