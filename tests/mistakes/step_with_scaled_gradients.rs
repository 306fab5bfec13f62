//! A `GradScaler` whose gradients are stepped with before they are unscaled.

use burn::{
    backend::{Autodiff, Flex},
    nn::{Linear, LinearConfig},
    optim::SgdConfig,
    tensor::Tensor,
};
use burn_amp::{config::DynamicLossScale, optim::GradScaler};

type B = Autodiff<Flex>;

fn main() {
    let device = Default::default();
    let model: Linear<B> = LinearConfig::new(4, 2).init(&device);
    let mut optimizer = SgdConfig::new().init();
    let scaler = GradScaler::new(DynamicLossScale::default()).unwrap();
    let loss = model.forward(Tensor::<B, 2>::ones([1, 4], &device)).sum();
    let mut grads = scaler.scale(loss).backward();
    grads.of(&model).step(&mut optimizer, 0.1, model);
}
